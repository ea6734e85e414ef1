#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace tpplan {

/// `wanted` threads, or all of the machine's when 0; at least one.
[[nodiscard]] inline int thread_count(int wanted) {
  return wanted > 0 ? wanted : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Calls work(index, thread) for index 0 .. count - 1, taken in rising order by `threads` threads, until
/// asked to stop. The first exception ends the loop and is thrown again here.
template <class Work>
void parallel_for(std::size_t count, int threads, const std::stop_token& stop, Work work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto loop = [&](int thread) {
    try {
      for (std::size_t i = next++; i < count && !stop.stop_requested(); i = next++) work(i, thread);
    } catch (...) {
      const std::scoped_lock lock(failure_mutex);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::jthread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(loop, thread);
  loop(0);
  others.clear();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tpplan
