#include "simulator/cost/plan_costs.hpp"

#include <algorithm>
#include <cmath>

#include "simulator/plan/buckets.hpp"

namespace tpplan {
namespace {

Passes stage_passes(const Stage& stage, const LayerCosts& blocks) {
  Passes passes{blocks.layer.forward * stage.layers, blocks.layer.backward * stage.layers};
  if (stage.embedding) {
    passes.forward += blocks.embedding.forward;
    passes.backward += blocks.embedding.backward;
  }
  if (stage.head) {
    passes.forward += blocks.head.forward;
    passes.backward += blocks.head.backward;
  }
  return passes;
}

/// Reductions, gathers and optimizer of one pipeline rank that holds `parameters` per tensor rank.
RankCosts rank_costs(const RuntimeOptions& run, const CostModel& model, const ParallelPlan& plan,
                     double parameters, const GroupPath& replicas) {
  RankCosts rank{.parameters = parameters};
  const int shards = replicas.size;
  const bool shards_state = plan.zero != ZeroStage::none;
  if (shards > 1 && plan.zero != ZeroStage::weights) {
    const Bytes gradients{parameters * run.reduce_bytes};
    rank.buckets = rank_buckets(run, plan.bucket, parameters);
    const Collective reduction = shards_state ? Collective::reduce_scatter : Collective::all_reduce;
    rank.reduce = model.collective(reduction, gradients / rank.buckets, replicas) * rank.buckets;
    if (shards_state) {
      const Bytes weights{parameters * element_bytes(plan.precision)};
      const double parts = std::max(1.0, std::ceil(weights / plan.bucket));
      rank.gather = model.collective(Collective::all_gather, weights / parts, replicas) * parts;
    }
  }
  const double held = parameters / (shards_state ? shards : 1);
  rank.optimizer = model.streaming(Bytes{held * model.constants().optimizer_bytes}, 8);
  return rank;
}

/// ZeRO 3: every block is gathered before use and its gradients are scattered after the backward.
void add_zero3(Block& block, const RuntimeOptions& run, const CostModel& model, Precision precision,
               const GroupPath& replicas) {
  const double messages = run.zero3_messages;
  const Bytes weights{block.parameters * element_bytes(precision)};
  const Bytes gradients{block.parameters * run.reduce_bytes};
  block.gather = messages * model.collective(Collective::all_gather, weights / messages, replicas);
  block.reduce = messages * model.collective(Collective::reduce_scatter, gradients / messages, replicas);
}

}  // namespace

PlanPaths plan_paths(const Topology& topology, const ParallelPlan& plan) {
  PlanPaths paths;
  paths.replicas = group_path(topology, {plan.dp * plan.cp, plan.cp > 1 ? plan.tp : plan.dp_stride()});
  paths.everyone = group_path(topology, {plan.world(), 1});
  if (plan.pp > 1) {
    const int count = plan.tp * plan.cp;
    // Ranks of a node at the same place of their pipelines send at once.
    const int replicas = plan.order == AxisOrder::tp_cp_dp_pp
                             ? plan.dp
                             : std::max(1, topology.used_per_node / (count * plan.pp));
    const int senders = std::min(topology.used_per_node, count * replicas);
    for (int rank = 0; rank < plan.pp; ++rank)
      paths.hops.push_back(pair_path(topology, rank * plan.pp_stride(),
                                     (rank + 1) % plan.pp * plan.pp_stride(), count, senders));
    paths.ends = pair_path(topology, 0, (plan.pp - 1) * plan.pp_stride(), count, senders);
  }
  return paths;
}

PlanCosts plan_costs(const Problem& problem, const CostModel& model, const ParallelPlan& plan,
                     const LayerCosts& given, const PlanPaths& paths) {
  LayerCosts blocks = given;
  if (const double cores = problem.topology.shared_cores; cores > 0 && cores < plan.world())
    // The engine slows compute down where ranks share cores. Collectives were measured among all ranks.
    for (Passes* passes : {&blocks.layer, &blocks.embedding, &blocks.head})
      for (Phase* phase : {&passes->forward, &passes->backward}) {
        phase->recompute += phase->recompute_collectives * (cores / plan.world() - 1);
        phase->tensor_parallel *= cores / plan.world();
      }
  const KernelConstants& c = model.constants();
  const RuntimeOptions& run = problem.runtime;
  PlanCosts costs;
  costs.layer = {blocks.layer, blocks.parameters.layer};
  costs.embedding = {blocks.embedding, blocks.parameters.embedding};
  costs.head = {blocks.head, blocks.parameters.head + (plan.pp > 1 ? blocks.parameters.tied : 0)};
  costs.stages.reserve(plan.stages.size());
  for (const Stage& stage : plan.stages) {
    costs.stages.push_back(stage_passes(stage, blocks));
    costs.parameters.push_back(stage_parameters(stage, blocks.parameters, plan.pp > 1));
  }
  costs.straggler = 1 + c.straggler_per_doubling * std::log2(static_cast<double>(problem.topology.nodes()));
  costs.overlap_slowdown = c.overlap_slowdown;
  costs.shared_cores = problem.topology.shared_cores;
  costs.reductions_compute = paths.replicas.nodes == 1;
  costs.fixed = run.fixed_per_step;
  costs.gradient_bytes = run.reduce_bytes;
  costs.reduces_overlap = run.dp_overlap == DpOverlap::backward;
  costs.gathers_overlap = run.gather_overlaps;
  costs.gathers_twice = run.reshard_after_forward;

  costs.boundary = blocks.boundary;
  costs.transfer_blocks = run.p2p_overlap ? c.transfer_blocks_overlapped : c.transfer_blocks;
  for (std::size_t i = 0; i + 1 < plan.stages.size() && plan.pp > 1; ++i)
    costs.transfer.push_back(model.collective(Collective::send, blocks.boundary,
                                              paths.hops[i % static_cast<std::size_t>(plan.pp)]));

  for (int rank = 0; rank < plan.pp; ++rank)
    costs.ranks.push_back(
        rank_costs(run, model, plan, rank_parameters(plan, blocks.parameters, rank), paths.replicas));
  if (problem.model.tied_embeddings && plan.pp > 1) {
    // The two copies of the tied embedding are summed over the first and the last rank.
    const Bytes gradient{blocks.parameters.tied * run.reduce_bytes};
    costs.tied_reduce = model.collective(Collective::all_reduce, gradient, paths.ends);
  }
  if (plan.zero == ZeroStage::weights && paths.replicas.size > 1) {
    GroupPath replicas = paths.replicas;
    replicas.network_bandwidth *= run.zero3_bandwidth_share;
    for (Block* block : {&costs.layer, &costs.embedding, &costs.head})
      add_zero3(*block, run, model, plan.precision, replicas);
  }
  costs.gradient_norm = model.collective(Collective::all_reduce, Bytes{4}, paths.everyone);
  return costs;
}

}  // namespace tpplan
