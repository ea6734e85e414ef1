#include <algorithm>
#include <gtest/gtest.h>

#include "planner/search/candidates.hpp"
#include "simulator/cost/analytic_cost_model.hpp"
#include "tests/support/problems.hpp"

namespace tpplan {
namespace {

using testing::small_problem;

struct Exhaustive {
  double step;
  std::uint64_t order;
  auto operator<=>(const Exhaustive&) const = default;
};

TEST(Search, ShowsWhatExhaustiveSimulationOfTheSpaceWouldShow) {
  for (const char* framework : {"megatron-core", "nemo", "deepspeed-2021"}) {
    Problem problem = small_problem(8, 16, 64);
    problem.runtime = runtime_profile(framework).value();
    const AnalyticCostModel model(problem.topology.device);
    const SearchOptions options;
    const Space space = make_space(problem, options);
    const SharedCosts shared(problem, model, options, space);
    const Enumeration all = enumerate(problem, model, options, space, shared, {}, {});
    std::vector<Exhaustive> exhaustive;
    for (const Candidate& candidate : all.candidates) {
      const ParallelPlan plan = plan_of(problem, space, shared, candidate);
      const double step = simulate_plan(problem, model, plan).step.value();
      EXPECT_LE(candidate.bound.value(), step * (1 + 1e-12));
      exhaustive.push_back({step, candidate.order});
    }
    std::sort(exhaustive.begin(), exhaustive.end());
    const SearchResult result = search(problem, model, options);
    ASSERT_EQ(result.plans.size(), 10U);
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(result.plans[i].report.step.value(), exhaustive[i].step);
    EXPECT_LT(result.simulated, all.candidates.size());
  }
}

TEST(Search, EveryCombinationIsRejectedPrunedOrSimulated) {
  const Problem problem = small_problem(8, 16, 64);
  const SearchResult result = search(problem, AnalyticCostModel(problem.topology.device), {});
  std::uint64_t rejected = 0;
  for (const auto& [rule, count] : result.rejected) rejected += count;
  EXPECT_EQ(rejected + result.pruned + result.simulated, result.space);
}

TEST(Search, ThreadsChangeNothing) {
  const Problem problem = small_problem(12, 32, 128);
  const AnalyticCostModel model(problem.topology.device);
  SearchOptions one, eight;
  one.threads = 1;
  eight.threads = 8;
  const SearchResult a = search(problem, model, one), b = search(problem, model, eight);
  ASSERT_EQ(a.plans.size(), b.plans.size());
  for (std::size_t i = 0; i < a.plans.size(); ++i) {
    EXPECT_EQ(a.plans[i].plan, b.plans[i].plan);
    EXPECT_EQ(a.plans[i].report.step, b.plans[i].report.step);
  }
  EXPECT_EQ(a.rejected, b.rejected);
}

TEST(Search, EveryPlanReturnedIsLegalAndFits) {
  Problem problem = small_problem(24, 8, 64);
  problem.topology.device.memory = gibibytes(6);
  const SearchResult result = search(problem, AnalyticCostModel(problem.topology.device), {});
  ASSERT_FALSE(result.plans.empty());
  EXPECT_GT(result.rejected.at(Rule::memory), 0U);
  for (const RankedPlan& ranked : result.plans) {
    EXPECT_TRUE(violations(problem, ranked.plan).empty());
    EXPECT_LE(ranked.report.memory.peak(), problem.topology.device.memory * 0.95);
  }
}

TEST(Search, NothingFitsNamesThePlanThatNeedsTheLeast) {
  Problem problem = small_problem(24, 8, 64);
  problem.topology.device.memory = mebibytes(100);
  const SearchResult result = search(problem, AnalyticCostModel(problem.topology.device), {});
  EXPECT_TRUE(result.plans.empty());
  ASSERT_TRUE(result.nearest.has_value());
  EXPECT_GT(result.nearest->report.memory.peak(), mebibytes(100));
}

TEST(Search, FixedValuesAreObeyed) {
  const Problem problem = small_problem(8, 16, 64);
  SearchOptions options;
  options.tp = {4};
  options.zero = {ZeroStage::optimizer};
  options.recompute = {Recompute::full};
  for (const RankedPlan& ranked :
       search(problem, AnalyticCostModel(problem.topology.device), options).plans) {
    EXPECT_EQ(ranked.plan.tp, 4);
    EXPECT_EQ(ranked.plan.zero, ZeroStage::optimizer);
    EXPECT_EQ(ranked.plan.recompute, Recompute::full);
  }
}

TEST(Search, MemoryObjectiveRanksByMemory) {
  const Problem problem = small_problem(8, 16, 64);
  SearchOptions options;
  options.objective = Objective::memory;
  const SearchResult result = search(problem, AnalyticCostModel(problem.topology.device), options);
  for (std::size_t i = 1; i < result.plans.size(); ++i)
    EXPECT_LE(result.plans[i - 1].report.memory.peak(), result.plans[i].report.memory.peak());
}

TEST(Search, StopsWhenAskedTo) {
  const Problem problem = small_problem(8, 16, 64);
  std::stop_source source;
  source.request_stop();
  EXPECT_TRUE(
      search(problem, AnalyticCostModel(problem.topology.device), {}, source.get_token()).plans.empty());
}

}  // namespace
}  // namespace tpplan
