#pragma once

#include "simulator/model/model_spec.hpp"
#include "simulator/plan/parallel_plan.hpp"

namespace tpplan {

struct Rehearsal {
  ModelSpec model;
  ParallelPlan plan;
};

/// The same layers, heads and key heads with few channels, a small vocabulary and short samples, and the same
/// plan with its buckets made smaller by as much as the parameters: degrees, groups, stages, schedule,
/// micro-batches, buckets of a rank and order of messages are those of the whole. fp32, so that any machine
/// can run it.
[[nodiscard]] Rehearsal shrink(const ModelSpec& model, const ParallelPlan& plan);

/// The same training on one rank.
[[nodiscard]] ParallelPlan on_one_rank(const ParallelPlan& plan, const ModelSpec& model);

}  // namespace tpplan
