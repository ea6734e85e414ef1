#include <benchmark/benchmark.h>
#include <filesystem>

#include "planner/placement/placement.hpp"
#include "planner/search/complete_plan.hpp"
#include "planner/search/planner.hpp"
#include "simulator/cost/analytic_cost_model.hpp"
#include "simulator/model/model_reader.hpp"
#include "simulator/plan/runtime_profiles.hpp"
#include "simulator/topology/topology_reader.hpp"

// Run with `make bench`. Figures and the machine they were measured on: docs/performance.md.

namespace tpplan {
namespace {

const std::filesystem::path kRoot(TPPLAN_SOURCE_DIR);

Problem problem_of(const std::string& model, int gpus) {
  Problem problem;
  problem.model = read_model(kRoot / "configs/models" / (model + ".yaml"));
  const Topology machine =
      read_topology(kRoot / "topologies/dgx-a100-80g.yaml", kRoot / "topologies/devices");
  problem.topology = with_gpus(place_ranks(machine).topology, gpus);
  problem.sequence = problem.model.sequence;
  problem.global_batch = problem.model.global_batch / problem.sequence;
  problem.runtime = runtime_profile("megatron-core").value();
  return problem;
}

ParallelPlan pipeline_plan(const Problem& problem, const CostModel& model, int pp, int microbatches) {
  ParallelPlan plan;
  plan.tp = 8;
  plan.pp = pp;
  plan.dp = problem.topology.gpus / 8 / pp;
  plan.global_batch = static_cast<std::int64_t>(microbatches) * plan.dp;
  plan.sequence = problem.sequence;
  plan.runtime = problem.runtime;
  plan.zero = ZeroStage::optimizer;
  return complete_plan(problem, model, plan);
}

/// Costs, memory and lower bound of one plan from blocks at hand: what the search does for every legal
/// combination.
void ClosedForm(benchmark::State& state) {
  const Problem problem = problem_of("gpt3-175b", 512);
  const AnalyticCostModel model(problem.topology.device);
  const ParallelPlan plan = pipeline_plan(problem, model, 8, 64);
  const LayerCosts blocks = layer_costs(problem, model, {plan.tp, false, 1, Recompute::none});
  const LayerMemory memory = layer_memory(problem, plan.tp, false, 1, Recompute::none);
  const PlanPaths paths = plan_paths(problem.topology, plan);
  for (auto _ : state) {
    benchmark::DoNotOptimize(memory_report(problem, plan, blocks.parameters, memory).peak());
    benchmark::DoNotOptimize(step_lower_bound(plan, plan_costs(problem, model, plan, blocks, paths)));
  }
  state.counters["plans/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}
BENCHMARK(ClosedForm);

/// The blocks themselves: once for each (tp, sequence parallelism, micro-batch, recompute) of a search.
void LayerBlocks(benchmark::State& state) {
  const Problem problem = problem_of("gpt3-175b", 512);
  const AnalyticCostModel model(problem.topology.device);
  for (auto _ : state) benchmark::DoNotOptimize(layer_costs(problem, model, {8, true, 2, Recompute::none}));
}
BENCHMARK(LayerBlocks);

/// Full event simulation: schedule, task graph, event loop. Arguments: pipeline ranks, micro-batches.
void EventSimulation(benchmark::State& state) {
  const int pp = static_cast<int>(state.range(0));
  const Problem problem = problem_of("gpt3-175b", 8 * pp * 8);
  const AnalyticCostModel model(problem.topology.device);
  const ParallelPlan plan = pipeline_plan(problem, model, pp, static_cast<int>(state.range(1)));
  const LayerCosts blocks = layer_costs(problem, model, {plan.tp, false, 1, Recompute::none});
  const PlanCosts costs = plan_costs(problem, model, plan, blocks, plan_paths(problem.topology, plan));
  for (auto _ : state) benchmark::DoNotOptimize(simulate_step_time(plan, costs));
  state.SetComplexityN(state.range(0) * state.range(1));
}
BENCHMARK(EventSimulation)
    ->Args({8, 64})
    ->Args({8, 128})
    ->Args({8, 256})
    ->Args({8, 512})
    ->Args({32, 512})
    ->Unit(benchmark::kMicrosecond)
    ->Complexity(benchmark::oN);

void Search(benchmark::State& state, const char* name, int gpus) {
  const Problem problem = problem_of(name, gpus);
  const AnalyticCostModel model(problem.topology.device);
  for (auto _ : state) {
    const SearchResult result = search(problem, model, {});
    state.counters["space"] = static_cast<double>(result.space);
    state.counters["simulated"] = static_cast<double>(result.simulated);
  }
}
BENCHMARK_CAPTURE(Search, gpt10b_on_128, "gpt10b", 128)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK_CAPTURE(Search, gpt3_on_4096, "gpt3-175b", 4096)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace tpplan
