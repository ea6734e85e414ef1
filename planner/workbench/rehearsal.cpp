#include "planner/workbench/rehearsal.hpp"

#include <algorithm>
#include <cmath>

#include "simulator/plan/buckets.hpp"

namespace tpplan {

Rehearsal shrink(const ModelSpec& model, const ParallelPlan& plan) {
  Rehearsal small{model, plan};
  ModelSpec& m = small.model;
  m.name += "-rehearsal";
  m.head_dim = 2;
  m.hidden = 16;
  m.ffn = 4LL * plan.tp;
  m.vocabulary = std::min<std::int64_t>(model.vocabulary, 128LL * plan.tp);
  const int sequence = std::max(4, 2 * plan.tp);
  m.sequence = sequence;
  m.max_positions = model.max_positions > 0 ? sequence : 0;
  if (model.learned_positions > 0) m.learned_positions = sequence;
  ParallelPlan& p = small.plan;
  p.sequence = sequence;
  p.precision = Precision::fp32;
  const BlockParameters whole = block_parameters(model, plan.tp), few = block_parameters(m, plan.tp);
  // As many buckets as before on the rank with most of them; the others differ by rounding at most.
  double most = 0, left = 0;
  for (int rank = 0; rank < plan.pp; ++rank)
    if (const double held = rank_parameters(plan, whole, rank); held > most) {
      most = held;
      left = rank_parameters(p, few, rank);
    }
  const int buckets = rank_buckets(plan.runtime, plan.bucket, most);
  p.bucket = Bytes{std::ceil(left * plan.runtime.reduce_bytes / buckets)};
  return small;
}

ParallelPlan on_one_rank(const ParallelPlan& plan, const ModelSpec& model) {
  ParallelPlan one = plan;
  one.tp = one.dp = one.pp = one.cp = one.vpp = 1;
  one.sequence_parallel = false;
  one.zero = ZeroStage::none;
  one.schedule = ScheduleKind::one_f_one_b;
  one.stages = even_stages(model.layers, 1, 1);
  return one;
}

}  // namespace tpplan
