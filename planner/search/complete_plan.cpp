#include "planner/search/complete_plan.hpp"

#include "planner/partition/partition.hpp"

namespace tpplan {

std::vector<Stage> balanced_stages(int layers, int pp, int vpp, const LayerCosts& blocks) {
  const auto time = [](const Passes& p) { return p.forward.total() + p.backward.total(); };
  const Seconds layer = time(blocks.layer);
  return partition_layers(layers, pp, vpp, {time(blocks.embedding) / layer, time(blocks.head) / layer});
}

ParallelPlan complete_plan(const Problem& problem, const CostModel& model, ParallelPlan plan) {
  const LayerCosts blocks =
      layer_costs(problem, model, {plan.tp, plan.sequence_parallel, plan.micro_batch, plan.recompute});
  plan.stages = balanced_stages(problem.model.layers, plan.pp, plan.vpp, blocks);
  plan.bucket = default_bucket(plan.runtime, plan.dp);
  const auto bound = [&](AxisOrder order) {
    plan.order = order;
    return step_lower_bound(plan,
                            plan_costs(problem, model, plan, blocks, plan_paths(problem.topology, plan)));
  };
  const Seconds first = bound(AxisOrder::tp_cp_dp_pp), second = bound(AxisOrder::tp_cp_pp_dp);
  plan.order = second < first ? AxisOrder::tp_cp_pp_dp : AxisOrder::tp_cp_dp_pp;
  return plan;
}

}  // namespace tpplan
