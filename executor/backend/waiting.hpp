#pragma once

#include <chrono>
#include <sys/prctl.h>
#include <thread>

namespace tpplan {

/// Whether the calling thread is a lane beside the rank's own thread: it must leave the cores to the compute
/// lane while it waits.
inline thread_local bool is_background_thread = false;

/// Whether the ranks of this machine are more than its cores: then a rank must leave its core to the others
/// while it waits. Set before ranks talk to each other.
inline bool ranks_share_cores = false;

[[nodiscard]] inline bool waits_asleep() { return is_background_thread || ranks_share_cores; }

/// Sleeps between polls, longer and longer: 5 us at first, at most 200 us. Measured on two cores: a lane that
/// sleeps hides nine tenths of a transfer, while one that blocks in MPI takes half a core; and four ranks
/// over TCP take two thirds of the time that they take when they yield between polls.
class Backoff {
 public:
  void pause() {
    std::this_thread::sleep_for(time_);
    if (time_ < std::chrono::microseconds(200)) time_ += time_ / 2;
  }

  /// Lets sleeps end on time: the kernel's slack of 50 us is ten times the shortest. For threads that are
  /// started after the call, and the caller.
  static void be_precise() { ::prctl(PR_SET_TIMERSLACK, 1); }

 private:
  std::chrono::nanoseconds time_{5'000};
};

}  // namespace tpplan
