#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>

#include "executor/backend/communicator_contract.hpp"
#include "executor/backend/rank_threads.hpp"
#include "simulator/document/document.hpp"

namespace tpplan::testing {
namespace {

TEST(InProcess, KeepsTheContract) {
  for (const int ranks : {4, 5}) {
    std::mutex mutex;
    std::vector<std::string> wrong;
    run_rank_threads(ranks, Seconds{60}, [&](Communicator& world) {
      const auto own = communicator_contract(world);
      const std::scoped_lock lock(mutex);
      wrong.insert(wrong.end(), own.begin(), own.end());
    });
    EXPECT_THAT(wrong, ::testing::IsEmpty());
  }
}

std::string failure_of(int ranks, Seconds limit, const std::function<void(Communicator&)>& body) {
  try {
    run_rank_threads(ranks, limit, body);
  } catch (const SystemError& error) {
    return error.what();
  }
  return "nothing";
}

TEST(InProcess, AMissingRankIsAnErrorThatNamesTheCollective) {
  const std::string error = failure_of(3, Seconds{0.3}, [](Communicator& world) {
    if (world.rank() == 1) return;
    const TaskLabel label("s0.dp.reduce.b2");
    world.barrier();
  });
  EXPECT_THAT(error, ::testing::HasSubstr("s0.dp.reduce.b2"));
  EXPECT_THAT(error, ::testing::HasSubstr("barrier"));
}

TEST(InProcess, AReceiveWithoutSenderEndsToo) {
  const std::string error = failure_of(2, Seconds{0.3}, [](Communicator& world) {
    float x = 0;
    if (world.rank() == 0) world.receive(vector(&x, DType::f32, 1), 1, 0);
  });
  EXPECT_THAT(error, ::testing::HasSubstr("receive from rank 1"));
}

TEST(InProcess, TheFirstFailureIsTheOneReported) {
  EXPECT_THROW(run_rank_threads(3, Seconds{30},
                                [](Communicator& world) {
                                  if (world.rank() == 2) throw ConfigError("the cause");
                                  world.barrier();
                                }),
               ConfigError);
}

}  // namespace
}  // namespace tpplan::testing
