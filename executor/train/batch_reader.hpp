#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <span>
#include <vector>

#include "simulator/plan/parallel_plan.hpp"

namespace tpplan {

/// Writes sequence + 1 tokens of a sample of the whole training: number = step * global_batch + place in the
/// batch, so that every layout, and every resumed run, sees the same samples.
using SampleReader = std::function<void(std::int64_t number, std::span<std::int32_t> tokens)>;

/// The batches of one data-parallel rank. While one is trained on, a thread reads the next.
class BatchReader {
 public:
  /// `samples` is called from other threads, one at a time. `plan` must outlive it.
  BatchReader(SampleReader samples, const ParallelPlan& plan, int dp_rank, std::int64_t first_step);

  /// For each micro-batch its inputs, then its targets, each (micro_batch * sequence). Valid until the next
  /// call. Throws what `samples` threw.
  [[nodiscard]] std::span<const std::int32_t> next();

 private:
  [[nodiscard]] std::vector<std::int32_t> read(std::int64_t step) const;

  SampleReader samples_;
  const ParallelPlan& plan_;
  int dp_rank_;
  std::int64_t step_;
  std::vector<std::int32_t> current_;
  std::future<std::vector<std::int32_t>> ahead_;
};

}  // namespace tpplan
