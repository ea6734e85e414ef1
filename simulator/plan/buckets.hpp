#pragma once

#include "simulator/plan/parallel_plan.hpp"
#include "simulator/plan/shares.hpp"

// How gradients are dealt into the buckets that are reduced over the data-parallel ranks together. The engine
// prices these buckets and the executor reduces them, so both ask here.

namespace tpplan {

/// Blocks of a stage: embedding, layers, head.
[[nodiscard]] int stage_blocks(const Stage& stage);

/// Buckets of a pipeline rank whose stages hold `parameters` per tensor rank: ceil(bytes as reduced /
/// bucket); one when the framework reduces everything at once.
[[nodiscard]] int rank_buckets(const RuntimeOptions& run, Bytes bucket, double parameters);

/// Buckets of one stage: its share by parameters of the buckets of its rank, at least one and at most one for
/// a block; under ZeRO 3 every block is its own.
[[nodiscard]] int stage_buckets(const ParallelPlan& plan, const Stage& stage, double stage_parameters,
                                double rank_parameters, int rank_buckets);

/// The bucket of the `block`-th of `blocks` blocks, both counted in the order of the pass.
[[nodiscard]] constexpr int bucket_of_block(int block, int blocks, int buckets) {
  return block * buckets / blocks;
}

}  // namespace tpplan
