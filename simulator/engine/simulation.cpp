#include "simulator/engine/simulation.hpp"

#include <algorithm>
#include <stdexcept>

namespace tpplan {
namespace {

/// Length of the union of the data-parallel intervals of `device` that lies in the gaps of its compute stream
/// or after its end: communication that nothing hides.
Seconds exposed_data_parallel(const TaskGraph& graph, const Timeline& timeline, int device) {
  std::vector<Interval> compute, communication;
  for (std::size_t id = 0; id < graph.tasks().size(); ++id) {
    const Task& task = graph.tasks()[id];
    if (task.device != device || task.kind == TaskKind::norm || task.kind == TaskKind::fixed) continue;
    if (task.stream == StreamKind::compute) compute.push_back(timeline.intervals[id]);
    if (task.stream == StreamKind::dp) communication.push_back(timeline.intervals[id]);
  }
  // Both streams run in order, so both lists are sorted; walk the gaps.
  Seconds exposed{}, gap_start{};
  std::size_t next = 0;
  const auto add_gap = [&](Seconds start, Seconds end) {
    for (; next < communication.size() && communication[next].end <= start; ++next) {
    }
    for (std::size_t i = next; i < communication.size() && communication[i].start < end; ++i)
      exposed +=
          std::max(Seconds{}, std::min(end, communication[i].end) - std::max(start, communication[i].start));
  };
  for (const Interval& interval : compute) {
    if (interval.start > gap_start) add_gap(gap_start, interval.start);
    gap_start = std::max(gap_start, interval.end);
  }
  add_gap(gap_start, timeline.makespan);
  return exposed;
}

Contention contention_of(const ParallelPlan& plan, const PlanCosts& costs) {
  return {costs.overlap_slowdown, costs.shared_cores, plan.world() / plan.pp, costs.reductions_compute};
}

/// FLOPs that recomputation repeats over the model's own, by the same convention as model_flops_per_token.
double repeated_share(const Problem& problem, Recompute recompute) {
  const ModelSpec& model = problem.model;
  const ParameterCount count = count_parameters(model);
  const double all = model_flops_per_token(model, problem.sequence, problem.causal_flops);
  const double core = (problem.causal_flops ? 2.0 : 4.0) * model.layers *
                      static_cast<double>(model.q_width()) * problem.sequence;
  const double products =
      2.0 * model.layers * static_cast<double>(count.attention_per_layer + count.mlp_per_layer);
  switch (recompute) {
    case Recompute::none:
      return 0;
    case Recompute::selective:
      return (problem.runtime.selective_saves_products ? products / 2 : core) / all;
    case Recompute::full: {
      const double left_out = problem.runtime.recompute_ends_before_output
                                  ? 2.0 * model.layers * static_cast<double>(model.hidden) * model.ffn
                                  : 0;
      return (products - left_out + core) / all;
    }
  }
  return 0;
}

Breakdown break_down(const ParallelPlan& plan, const PlanCosts& costs, const TaskGraph& graph,
                     const Timeline& timeline, int device, Seconds busy) {
  Phase work;
  const auto microbatches = static_cast<double>(plan.microbatches());
  Seconds blocked{};
  const int stages = static_cast<int>(plan.stages.size());
  for (int i = device; i < stages; i += plan.pp) {
    const Passes& passes = costs.stages[static_cast<std::size_t>(i)];
    work += passes.forward * microbatches;
    work += passes.backward * microbatches;
    if (costs.transfer.empty()) continue;
    if (i > 0)
      blocked += costs.transfer[static_cast<std::size_t>(i) - 1] * costs.transfer_blocks * microbatches;
    if (i + 1 < stages)
      blocked += costs.transfer[static_cast<std::size_t>(i)] * costs.transfer_blocks * microbatches;
  }
  Breakdown b;
  b.ideal = work.ideal;
  b.product_loss = work.product_loss;
  b.attention_loss = work.attention_loss;
  b.memory_bound = work.memory_bound;
  b.host = work.host;
  b.recompute = work.recompute;
  b.tensor_parallel = work.tensor_parallel;
  b.pipeline = blocked;
  b.optimizer = costs.ranks[static_cast<std::size_t>(device)].optimizer;
  b.data_parallel = exposed_data_parallel(graph, timeline, device);
  b.other = costs.fixed + costs.gradient_norm + work.total() * (costs.straggler - 1);
  // Slowed compute is the price of overlap: data-parallel communication that could not quite hide.
  b.data_parallel += std::max(Seconds{}, busy - work.total() * costs.straggler - blocked - b.optimizer);
  b.bubble = std::max(Seconds{}, timeline.makespan - b.total());
  return b;
}

}  // namespace

Seconds Breakdown::total() const {
  return ideal + product_loss + attention_loss + memory_bound + host + recompute + tensor_parallel +
         pipeline + data_parallel + bubble + optimizer + other;
}

SimulationReport simulate_plan(const Problem& problem, const CostModel& model, const ParallelPlan& plan,
                               bool keep_timeline) {
  const LayerCosts blocks =
      layer_costs(problem, model, {plan.tp, plan.sequence_parallel, plan.micro_batch, plan.recompute});
  const PlanCosts costs = plan_costs(problem, model, plan, blocks, plan_paths(problem.topology, plan));
  const LayerMemory memory =
      layer_memory(problem, plan.tp, plan.sequence_parallel, plan.micro_batch, plan.recompute);
  SimulationReport report = simulate_step(problem, plan, costs, keep_timeline);
  report.memory = memory_report(problem, plan, blocks.parameters, memory);
  return report;
}

Schedule schedule_of(const ParallelPlan& plan) {
  return make_schedule(plan.schedule, plan.pp, plan.vpp, static_cast<int>(plan.microbatches()));
}

Seconds simulate_step_time(const ParallelPlan& plan, const PlanCosts& costs) {
  return simulate(lower(plan, schedule_of(plan), costs), contention_of(plan, costs)).makespan;
}

SimulationReport simulate_step(const Problem& problem, const ParallelPlan& plan, const PlanCosts& costs,
                               bool keep_timeline) {
  const Schedule schedule = schedule_of(plan);
  if (const auto deadlock = find_deadlock(schedule)) throw std::logic_error(*deadlock);
  auto graph = std::make_shared<const TaskGraph>(lower(plan, schedule, costs));
  auto timeline = std::make_shared<const Timeline>(simulate(*graph, contention_of(plan, costs)));

  SimulationReport report;
  report.step = timeline->makespan;
  const double tokens = static_cast<double>(plan.global_batch) * problem.sequence;
  report.tokens_per_second = tokens / report.step.value();
  const Flops useful{model_flops_per_token(problem.model, problem.sequence, problem.causal_flops) * tokens};
  const FlopsPerSecond peak = problem.topology.device.peak_rate(plan.precision) * plan.world();
  report.mfu = useful / report.step / peak;
  report.hfu = report.mfu * (1 + repeated_share(problem, plan.recompute));

  report.rank_compute.resize(static_cast<std::size_t>(plan.pp));
  for (std::size_t id = 0; id < graph->tasks().size(); ++id) {
    const Task& task = graph->tasks()[id];
    if (task.stream == StreamKind::compute && task.kind != TaskKind::fixed)
      report.rank_compute[static_cast<std::size_t>(task.device)] +=
          timeline->intervals[id].end - timeline->intervals[id].start;
  }
  for (std::size_t i = 0; i < costs.stages.size(); ++i)
    report.stages.push_back({costs.stages[i].forward.total() * costs.straggler,
                             costs.stages[i].backward.total() * costs.straggler, costs.parameters[i]});
  report.rank_tensor_parallel.resize(static_cast<std::size_t>(plan.pp));
  for (std::size_t i = 0; i < costs.stages.size(); ++i)
    report.rank_tensor_parallel[i % static_cast<std::size_t>(plan.pp)] +=
        (costs.stages[i].forward.tensor_parallel_bytes + costs.stages[i].backward.tensor_parallel_bytes) *
        static_cast<double>(plan.microbatches());
  const auto busiest = std::max_element(report.rank_compute.begin(), report.rank_compute.end());
  report.breakdown = break_down(plan, costs, *graph, *timeline,
                                static_cast<int>(busiest - report.rank_compute.begin()), *busiest);
  if (keep_timeline) {
    report.graph = std::move(graph);
    report.timeline = std::move(timeline);
  }
  return report;
}

}  // namespace tpplan
