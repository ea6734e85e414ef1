#pragma once

#include <chrono>
#include <thread>

namespace tpplan {

/// Whether the calling thread is a lane beside the rank's own thread: it must leave the cores to the compute
/// lane while it waits.
inline thread_local bool is_background_thread = false;

/// Sleeps between polls, longer and longer: 20 us at first, at most 200 us. Measured on two ranks of one core
/// each: such a thread hides nine tenths of a transfer, while one that blocks in MPI takes half a core.
class Backoff {
 public:
  void pause() {
    std::this_thread::sleep_for(time_);
    if (time_ < std::chrono::microseconds(200)) time_ += time_ / 2;
  }

 private:
  std::chrono::microseconds time_{20};
};

}  // namespace tpplan
