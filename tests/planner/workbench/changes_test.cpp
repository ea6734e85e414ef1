#include "planner/workbench/changes.hpp"

#include <algorithm>
#include <gtest/gtest.h>

#include "simulator/cost/analytic_cost_model.hpp"
#include "tests/support/problems.hpp"

namespace tpplan {
namespace {

using testing::plan_of;
using testing::small_problem;

/// In how many settings two plans differ. Degrees count as one: their product is the number of GPUs, so one
/// cannot change alone. The schedule and its chunks count as one for the same reason.
int distance(const ParallelPlan& a, const ParallelPlan& b) {
  return (a.tp != b.tp || a.pp != b.pp || a.dp != b.dp) + (a.sequence_parallel != b.sequence_parallel) +
         (a.zero != b.zero) + (a.micro_batch != b.micro_batch) + (a.recompute != b.recompute) +
         (a.schedule != b.schedule || a.vpp != b.vpp);
}

class Changes : public ::testing::Test {
 protected:
  Problem problem = small_problem(8, 8, 32);
  AnalyticCostModel model{problem.topology.device};
  ParallelPlan plan = plan_of(problem, 2, 2, 2);
  Bytes device = problem.topology.device.memory;
};

TEST_F(Changes, EachIsLegalAndDiffersInOneSetting) {
  const Seconds before = simulate_plan(problem, model, plan).step;
  const std::vector<Change> changes = single_changes(problem, model, plan, device);
  ASSERT_FALSE(changes.empty());
  for (const Change& change : changes) {
    EXPECT_TRUE(violations(problem, change.plan).empty()) << change.what;
    EXPECT_EQ(distance(plan, change.plan), 1) << change.what;
    EXPECT_EQ(change.plan.tp * change.plan.pp * change.plan.dp, 8) << change.what;
    EXPECT_DOUBLE_EQ(change.report.step.value(), (1 - change.gain) * before.value()) << change.what;
    EXPECT_EQ(change.report.step, simulate_plan(problem, model, change.plan).step) << change.what;
  }
}

TEST_F(Changes, EverySettingIsTried) {
  // tp, pp, dp trade pairwise: 6 ways. ZeRO 1, 2, 3; sequence parallelism; micro-batch 2; selective, full;
  // gpipe; interleaved with 2 and 4 chunks (2 ranks x 4 chunks = 8 layers): 16 in all.
  EXPECT_EQ(single_changes(problem, model, plan, device).size(), 16U);
}

TEST_F(Changes, FastestThatFitsFirstThenThoseThatDoNot) {
  std::vector<Bytes> peaks;
  for (const Change& change : single_changes(problem, model, plan, device))
    peaks.push_back(change.report.memory.peak());
  std::sort(peaks.begin(), peaks.end());
  const Bytes limit = peaks[peaks.size() / 2];  // so that about half of them fit
  const std::vector<Change> changes = single_changes(problem, model, plan, limit);
  EXPECT_TRUE(changes.front().fits);
  EXPECT_FALSE(changes.back().fits);
  for (std::size_t i = 1; i < changes.size(); ++i) {
    EXPECT_LE(std::pair(!changes[i - 1].fits, changes[i - 1].report.step),
              std::pair(!changes[i].fits, changes[i].report.step));
  }
}

TEST_F(Changes, TheSmallestChangeIsOneWhereOneIsEnough) {
  const Bytes limit = simulate_plan(problem, model, plan).memory.peak() * 0.999;
  const auto change =
      smallest_fitting_change(problem, model, plan, limit, single_changes(problem, model, plan, limit));
  ASSERT_TRUE(change);
  EXPECT_EQ(distance(plan, change->plan), 1);
  EXPECT_LE(change->report.memory.peak(), limit);
}

TEST_F(Changes, TwoWhereNoSingleOneFitsAndNoneWhereTwoDoNot) {
  Bytes least = device;
  for (const Change& change : single_changes(problem, model, plan, device))
    least = std::min(least, change.report.memory.peak());
  const Bytes limit = least * 0.999;
  const auto pair =
      smallest_fitting_change(problem, model, plan, limit, single_changes(problem, model, plan, limit));
  ASSERT_TRUE(pair);
  EXPECT_LE(pair->report.memory.peak(), limit);
  EXPECT_NE(pair->what.find("; "), std::string::npos) << pair->what;
  EXPECT_FALSE(smallest_fitting_change(problem, model, plan, Bytes{1},
                                       single_changes(problem, model, plan, Bytes{1})));
}

}  // namespace
}  // namespace tpplan
