#include "simulator/plan/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tpplan {
namespace {

using ::testing::HasSubstr;

/// "F0 F1 B0 ..." of one rank; with several chunks "F0.1" is micro-batch 0, chunk 1.
std::string words(const Schedule& schedule, int rank) {
  std::string text;
  for (const ScheduledOp& op : schedule.ops[static_cast<std::size_t>(rank)]) {
    if (!text.empty()) text += ' ';
    text += (op.pass == Pass::forward ? 'F' : 'B') + std::to_string(op.microbatch);
    if (schedule.chunks > 1) text += "." + std::to_string(op.chunk);
  }
  return text;
}

TEST(GPipe, AllForwardsThenAllBackwardsInReverse) {
  EXPECT_EQ(words(make_schedule(ScheduleKind::gpipe, 2, 1, 3), 1), "F0 F1 F2 B2 B1 B0");
}

TEST(OneForwardOneBackward, WarmsUpByTheDistanceToTheLastStage) {
  const Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 3, 1, 4);
  EXPECT_EQ(words(schedule, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(words(schedule, 2), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(Interleaved, FollowsTheOrderOfThePaper) {
  // 2 ranks, 2 chunks, 2 micro-batches (arXiv 2104.04473, figure 4). Rank 1 warms up with 0 x 2 + 1 x 2 = 2
  // forwards, rank 0 with 4 = all of them.
  const Schedule schedule = make_schedule(ScheduleKind::interleaved, 2, 2, 2);
  EXPECT_EQ(words(schedule, 0), "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0");
  EXPECT_EQ(words(schedule, 1), "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0");
}

TEST(MakeSchedule, EveryScheduleIsSound) {
  for (int pp = 1; pp <= 8; ++pp)
    for (const int multiple : {1, 2, 5}) {
      EXPECT_EQ(find_deadlock(make_schedule(ScheduleKind::gpipe, pp, 1, multiple)), std::nullopt);
      EXPECT_EQ(find_deadlock(make_schedule(ScheduleKind::one_f_one_b, pp, 1, multiple)), std::nullopt);
      for (int vpp = 2; vpp <= 4 && pp > 1; ++vpp)
        EXPECT_EQ(find_deadlock(make_schedule(ScheduleKind::interleaved, pp, vpp, pp * multiple)),
                  std::nullopt)
            << pp << " " << vpp << " " << multiple;
    }
}

TEST(MakeSchedule, ImpossibleOnesThrow) {
  EXPECT_THROW((void)make_schedule(ScheduleKind::interleaved, 4, 2, 6), std::invalid_argument);
  EXPECT_THROW((void)make_schedule(ScheduleKind::gpipe, 4, 2, 8), std::invalid_argument);
  EXPECT_THROW((void)make_schedule(ScheduleKind::gpipe, 0, 1, 8), std::invalid_argument);
}

TEST(FindDeadlock, ABackwardBeforeItsForwardWaitsForEver) {
  Schedule schedule = make_schedule(ScheduleKind::one_f_one_b, 2, 1, 2);
  std::swap(schedule.ops[1][0], schedule.ops[1][1]);  // B0 before F0 on the last rank
  EXPECT_THAT(find_deadlock(schedule).value(), HasSubstr("deadlock: "));
  EXPECT_THAT(find_deadlock(schedule).value(), HasSubstr("backward of micro-batch 0, chunk 0 on rank 1 waits "
                                                         "for forward of micro-batch 0, chunk 0 on rank 1"));
}

TEST(FindDeadlock, MissingAndRepeatedOpsAreNamed) {
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 1, 2);
  schedule.ops[0][1] = schedule.ops[0][0];
  EXPECT_THAT(find_deadlock(schedule).value(),
              HasSubstr("forward of micro-batch 0, chunk 0 on rank 0 is listed twice"));
  schedule = make_schedule(ScheduleKind::gpipe, 2, 1, 2);
  schedule.ops[1].pop_back();
  EXPECT_THAT(find_deadlock(schedule).value(),
              HasSubstr("backward of micro-batch 0, chunk 0 on rank 1 is missing"));
}

TEST(FindDeadlock, CrossedMessagesAreNamed) {
  // The receiver asks for micro-batch 1 first, the sender sends 0 first: nothing deadlocks, and the data are
  // mixed up.
  Schedule schedule = make_schedule(ScheduleKind::gpipe, 2, 1, 2);
  std::swap(schedule.ops[1][0], schedule.ops[1][1]);
  EXPECT_THAT(find_deadlock(schedule).value(), HasSubstr("out of the order in which it sends"));
}

TEST(PeakInFlight, IsTheWarmUpAndOne) {
  EXPECT_EQ(peak_in_flight(make_schedule(ScheduleKind::gpipe, 3, 1, 5)), (std::vector<int>{5, 5, 5}));
  EXPECT_EQ(peak_in_flight(make_schedule(ScheduleKind::one_f_one_b, 3, 1, 5)), (std::vector<int>{3, 2, 1}));
  // (p - r - 1) 2 + (v - 1) p + 1 with p = 2, v = 2: 5 and 3, of m v = 8.
  EXPECT_EQ(peak_in_flight(make_schedule(ScheduleKind::interleaved, 2, 2, 4)), (std::vector<int>{5, 3}));
}

}  // namespace
}  // namespace tpplan
