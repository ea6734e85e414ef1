#include "executor/train/batch_reader.hpp"

#include <algorithm>

namespace tpplan {

BatchReader::BatchReader(SampleReader samples, const ParallelPlan& plan, int dp_rank, std::int64_t first_step)
    : samples_(std::move(samples)), plan_(plan), dp_rank_(dp_rank), step_(first_step) {}

std::span<const std::int32_t> BatchReader::next() {
  current_ = ahead_.valid() ? ahead_.get() : read(step_);
  ++step_;
  ahead_ = std::async(std::launch::async, [this, step = step_] { return read(step); });
  return current_;
}

std::vector<std::int32_t> BatchReader::read(std::int64_t step) const {
  const auto s = static_cast<std::size_t>(plan_.sequence);
  const std::size_t rows = static_cast<std::size_t>(plan_.micro_batch) * s;
  std::vector<std::int32_t> batch(2 * static_cast<std::size_t>(plan_.microbatches()) * rows), sample(s + 1);
  auto to = batch.begin();
  for (std::int64_t m = 0; m < plan_.microbatches(); ++m) {
    const std::int64_t first = (m * plan_.dp + dp_rank_) * plan_.micro_batch;
    for (int i = 0; i < plan_.micro_batch; ++i) {
      samples_(step * plan_.global_batch + first + i, sample);
      const auto at = to + i * static_cast<std::ptrdiff_t>(s);
      std::copy(sample.begin(), sample.end() - 1, at);
      std::copy(sample.begin() + 1, sample.end(), at + static_cast<std::ptrdiff_t>(rows));
    }
    to += 2 * static_cast<std::ptrdiff_t>(rows);
  }
  return batch;
}

}  // namespace tpplan
