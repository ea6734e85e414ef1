// Ranks that disagree about the order of the pipeline are found, whatever the mistake.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/support/training_run.hpp"

namespace tpplan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// What a step says when rank 0 of a pipeline of two follows another order than rank 1.
std::string complaint(const std::function<void(std::vector<ScheduledOp>&)>& mistake) {
  const ModelSpec model = small_gpt2();
  const ParallelPlan plan = small_plan(model, 1, 1, 2);
  Schedule schedule = schedule_of(plan);
  mistake(schedule.ops[0]);
  try {
    on_ranks(model, plan, TrainingOptions{}, schedule, Seconds{1},
             [](TrainingRank rank) { (void)rank.trainer.step(rank.batches.next()); });
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

TEST(Order, TheGeneratedOneTrains) {
  EXPECT_EQ(complaint([](auto&) {}), "");
}

TEST(Order, SwappedForwardsAreNamed) {
  EXPECT_THAT(complaint([](auto& ops) { std::swap(ops[0].microbatch, ops[1].microbatch); }),
              AllOf(HasSubstr("s1.mb0.fwd"), HasSubstr("receive")));
}

TEST(Order, SwappedBackwardsAreNamed) {
  EXPECT_THAT(complaint([](auto& ops) {
                const auto is_backward = [](const ScheduledOp& op) { return op.pass == Pass::backward; };
                const auto first = std::find_if(ops.begin(), ops.end(), is_backward);
                std::swap(first->microbatch, std::find_if(first + 1, ops.end(), is_backward)->microbatch);
              }),
              HasSubstr(".bwd"));
}

TEST(Order, ABackwardBeforeItsForwardIsNamed) {
  EXPECT_THAT(complaint([](auto& ops) { std::reverse(ops.begin(), ops.end()); }),
              HasSubstr("before its forward"));
}

TEST(Order, AForgottenMicroBatchIsNamed) {
  EXPECT_THAT(complaint([](auto& ops) { ops.pop_back(); }), HasSubstr("waited"));
}

}  // namespace
}  // namespace tpplan::testing
