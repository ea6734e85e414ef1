#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "simulator/cost/plan_costs.hpp"
#include "simulator/engine/task_graph.hpp"
#include "simulator/memory/memory_report.hpp"

namespace tpplan {

/// Where a step's time goes on the pipeline rank that ends it. The parts add up to the step.
struct Breakdown {
  Seconds ideal;  // model FLOPs at the datasheet peak
  Seconds product_loss;
  Seconds attention_loss;
  Seconds memory_bound;
  Seconds host;
  Seconds recompute;
  Seconds tensor_parallel;  // exposed
  Seconds pipeline;         // exposed transfers
  Seconds data_parallel;    // exposed reductions and gathers
  Seconds bubble;           // waiting for other stages
  Seconds optimizer;
  Seconds other;  // fixed work of a step, stragglers
  [[nodiscard]] Seconds total() const;
  [[nodiscard]] Seconds exposed_communication() const { return tensor_parallel + pipeline + data_parallel; }
};

/// One micro-batch through one stage, and what a tensor-parallel rank holds of it.
struct StageTimes {
  Seconds forward, backward;
  double parameters = 0;
};

struct SimulationReport {
  Seconds step;
  double tokens_per_second = 0;
  double mfu = 0;  // model FLOPs over the dense peak of the precision
  double hfu = 0;  // with what recomputation repeats
  Breakdown breakdown;
  MemoryReport memory;
  std::vector<Seconds> rank_compute;        // busy time of the compute stream by pipeline rank
  std::vector<StageTimes> stages;           // [pp * vpp]
  std::vector<Bytes> rank_tensor_parallel;  // moved per rank by its tensor-parallel group, layers only
  // Kept on request, for timelines and traces.
  std::shared_ptr<const TaskGraph> graph;
  std::shared_ptr<const Timeline> timeline;
};

/// The tasks of one optimizer step: one device per pipeline rank, from the plan's Schedule.
[[nodiscard]] TaskGraph lower(const ParallelPlan& plan, const Schedule& schedule, const PlanCosts& costs);

/// Simulates one optimizer step of a legal plan.
[[nodiscard]] SimulationReport simulate_plan(const Problem& problem, const CostModel& model,
                                             const ParallelPlan& plan, bool keep_timeline = false);

/// The order of work that the plan stands for.
[[nodiscard]] Schedule schedule_of(const ParallelPlan& plan);

/// The same from costs at hand, without the memory report. The schedule is checked for deadlock first; one
/// that make_schedule gave and that fails is our bug (std::logic_error).
[[nodiscard]] SimulationReport simulate_step(const Problem& problem, const ParallelPlan& plan,
                                             const PlanCosts& costs, bool keep_timeline);

/// Only the step time: what a search needs of the plans it does not keep.
[[nodiscard]] Seconds simulate_step_time(const ParallelPlan& plan, const PlanCosts& costs);

/// A proven lower bound of simulate_plan(...).step from the same costs, in a few hundred nanoseconds:
/// no event can come earlier than the sums of work that must precede and follow it. Derivation in
/// simulator/README.md.
[[nodiscard]] Seconds step_lower_bound(const ParallelPlan& plan, const PlanCosts& costs);

}  // namespace tpplan
