#pragma once

#include <vector>

#include "simulator/model/model_spec.hpp"
#include "simulator/plan/parallel_plan.hpp"

namespace tpplan {

/// Parameters that one tensor-parallel rank holds of each building block, padding and replicated KV heads
/// included.
struct BlockParameters {
  double layer = 0;
  double embedding = 0;  // token rows and positions
  double head = 0;       // final norm, and the projection unless tied
  double tied = 0;       // the head's own copy of a tied embedding, where the two ends are on different ranks
};

[[nodiscard]] BlockParameters block_parameters(const ModelSpec& model, int tp);

/// Parameters of one stage. `pipeline`: the ends of the model are on different ranks.
[[nodiscard]] double stage_parameters(const Stage& stage, const BlockParameters& blocks, bool pipeline);

/// Parameters of the stages of one pipeline rank, before ZeRO shards them.
[[nodiscard]] double rank_parameters(const ParallelPlan& plan, const BlockParameters& blocks, int rank);

}  // namespace tpplan
