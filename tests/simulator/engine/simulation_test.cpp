#include "simulator/engine/simulation.hpp"

#include <gtest/gtest.h>
#include <set>

#include "simulator/cost/analytic_cost_model.hpp"
#include "tests/support/problems.hpp"

namespace tpplan {
namespace {

using testing::plan_of;
using testing::small_problem;

/// Costs in round seconds: every layer 1 s forward and 2 s backward, no ends, no communication.
PlanCosts round_costs(const ParallelPlan& plan) {
  PlanCosts costs;
  costs.layer.passes.forward.ideal = Seconds{1};
  costs.layer.passes.backward.ideal = Seconds{2};
  costs.layer.parameters = 1;
  for (const Stage& stage : plan.stages) {
    costs.stages.push_back(
        {costs.layer.passes.forward * stage.layers, costs.layer.passes.backward * stage.layers});
    costs.parameters.push_back(stage.layers);
  }
  costs.ranks.resize(static_cast<std::size_t>(plan.pp));
  for (RankCosts& rank : costs.ranks) rank.parameters = 4;
  return costs;
}

ParallelPlan pipeline(int pp, int vpp, int m, ScheduleKind kind) {
  const Problem problem = small_problem(4 * pp, pp, m);
  ParallelPlan plan = plan_of(problem, 1, pp, 1);
  plan.vpp = vpp;
  plan.schedule = kind;
  plan.stages = even_stages(4 * pp, pp, vpp);
  return plan;
}

TEST(Pipeline, MakespanIsMicroBatchesPlusStagesMinusOne) {
  // (m + p - 1)(f + b) with 4 layers a stage: f + b = 12 s. Huang et al. 2019 for GPipe; 1F1B has the same.
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b})
    for (const int pp : {1, 2, 4})
      for (const int m : {4, 8}) {
        const ParallelPlan plan = pipeline(pp, 1, m, kind);
        EXPECT_NEAR(simulate_step_time(plan, round_costs(plan)).value(), (m + pp - 1) * 12.0, 1e-9);
      }
}

TEST(Pipeline, InterleavingDividesTheBubble) {
  // m (f + b) + (p - 1)(f + b) / v. Narayanan et al. 2021, section 2.2.2.
  for (const int vpp : {2, 4}) {
    const ParallelPlan plan = pipeline(4, vpp, 8, ScheduleKind::interleaved);
    EXPECT_NEAR(simulate_step_time(plan, round_costs(plan)).value(), 8 * 12.0 + 3 * 12.0 / vpp, 1e-9);
  }
}

TEST(Pipeline, BreakdownAddsUpToTheStep) {
  const Problem problem = small_problem(8, 16, 64);
  const AnalyticCostModel model(problem.topology.device);
  for (const ZeroStage zero :
       {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::weights}) {
    ParallelPlan plan = plan_of(problem, 2, 2, 4);
    plan.zero = zero;
    const SimulationReport report = simulate_plan(problem, model, plan);
    EXPECT_NEAR(report.breakdown.total().value(), report.step.value(), report.step.value() * 1e-6);
    EXPECT_GT(report.breakdown.bubble.value(), 0);
  }
}

TEST(DataParallel, OverlappedReductionHidesBehindTheBackward) {
  // One rank, 4 layers, m = 2: 24 s of compute. Four buckets of 0.5 s, ready after 2, 4, 6 and 8 s of the
  // last backward: only the last is seen.
  ParallelPlan plan = pipeline(1, 1, 2, ScheduleKind::one_f_one_b);
  PlanCosts costs = round_costs(plan);
  costs.ranks[0].reduce = Seconds{2};
  costs.ranks[0].buckets = 6;  // embedding, 4 layers, head
  costs.overlap_slowdown = 0;
  costs.parameters[0] = 4;
  const double overlapped = simulate_step_time(plan, costs).value();
  EXPECT_LT(overlapped, 24.6);
  EXPECT_GT(overlapped, 24.0);
  costs.reduces_overlap = false;
  EXPECT_NEAR(simulate_step_time(plan, costs).value(), 26, 1e-9);
}

TEST(Zero3, GathersAheadHideAndSlowGathersDominate) {
  ParallelPlan plan = pipeline(1, 1, 2, ScheduleKind::one_f_one_b);
  plan.zero = ZeroStage::weights;
  PlanCosts costs = round_costs(plan);
  costs.overlap_slowdown = 0;
  costs.layer.gather = Seconds{0.5};
  costs.layer.reduce = Seconds{0.5};
  // Fast: 24 s of compute. Gathers run one block ahead, and embedding and head take no time here, so each of
  // the two micro-batches shows the gather of its first layer, that of the last layer for the backward, and
  // the last reduction.
  EXPECT_NEAR(simulate_step_time(plan, costs).value(), 24 + 2 * 3 * 0.5, 1e-9);
  // Slow: the stream carries 2 micro-batches x 4 layers x (2 gathers + 1 reduction) x 3 s = 72 s.
  costs.layer.gather = costs.layer.reduce = Seconds{3};
  EXPECT_GE(simulate_step_time(plan, costs).value(), 72);
  EXPECT_LT(simulate_step_time(plan, costs).value(), 72 + 8);
}

TEST(StepLowerBound, NeverExceedsTheSimulationAndIsTight) {
  const Problem problem = small_problem(16, 16, 64);
  const AnalyticCostModel model(problem.topology.device);
  double worst = 1;
  for (const int pp : {1, 2, 4, 8})
    for (const int vpp : {1, 2})
      for (const ScheduleKind kind :
           {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved})
        for (const int zero : {0, 1, 2, 3}) {
          if ((kind == ScheduleKind::interleaved) != (vpp > 1) || (vpp > 1 && pp == 1)) continue;
          ParallelPlan plan = plan_of(problem, 1, pp, 16 / pp);
          plan.vpp = vpp;
          plan.schedule = kind;
          plan.zero = static_cast<ZeroStage>(zero);
          plan.stages = even_stages(16, pp, vpp);
          const LayerCosts blocks = layer_costs(problem, model, {});
          const PlanCosts costs =
              plan_costs(problem, model, plan, blocks, plan_paths(problem.topology, plan));
          const double bound = step_lower_bound(plan, costs) / simulate_step_time(plan, costs);
          EXPECT_LE(bound, 1 + 1e-12) << "pp " << pp << " vpp " << vpp << " zero " << zero;
          worst = std::min(worst, bound);
        }
  EXPECT_GT(worst, 0.5);
}

TEST(Lower, LabelsAreUnique) {
  // A label names one task: comparing with measurements is a join on it.
  const Problem problem = small_problem(8, 16, 64);
  const AnalyticCostModel model(problem.topology.device);
  for (const int zero : {0, 1, 2, 3}) {
    ParallelPlan plan = plan_of(problem, 2, 2, 4);
    plan.zero = static_cast<ZeroStage>(zero);
    const SimulationReport report = simulate_plan(problem, model, plan, true);
    std::set<std::string> labels;
    for (const Task& task : report.graph->tasks())
      EXPECT_TRUE(labels.insert(label(task)).second) << label(task) << " twice, ZeRO " << zero;
  }
}

TEST(SimulatePlan, StagesHoldTheWholeModel) {
  const Problem problem = small_problem(8, 8, 64);
  const AnalyticCostModel model(problem.topology.device);
  const SimulationReport report = simulate_plan(problem, model, plan_of(problem, 1, 2, 4));
  ASSERT_EQ(report.stages.size(), 2U);
  EXPECT_NEAR(report.stages[0].parameters + report.stages[1].parameters,
              static_cast<double>(count_parameters(problem.model).total()), 1e-3);
  EXPECT_GT(report.stages[1].forward, report.stages[0].forward);  // the head
}

TEST(SimulatePlan, ModelFlopsUtilisationFollowsItsDefinition) {
  const Problem problem = small_problem(8, 8, 64);
  const AnalyticCostModel model(problem.topology.device);
  const SimulationReport report = simulate_plan(problem, model, plan_of(problem, 1, 1, 8));
  const double flops = model_flops_per_token(problem.model, 1024) * 64 * 1024;
  EXPECT_NEAR(report.mfu, flops / report.step.value() / (8 * 400e12), 1e-12);
  EXPECT_NEAR(report.tokens_per_second, 64 * 1024 / report.step.value(), 1e-6);
}

}  // namespace
}  // namespace tpplan
