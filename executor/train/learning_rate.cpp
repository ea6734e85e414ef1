#include "executor/train/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tpplan {

double learning_rate_at(const TrainingOptions& o, std::int64_t step) {
  if (step < o.warmup_steps)
    return o.learning_rate * static_cast<double>(step + 1) / static_cast<double>(o.warmup_steps);
  const double after = static_cast<double>(step - o.warmup_steps);
  const double length = static_cast<double>(std::max<std::int64_t>(1, o.total_steps - o.warmup_steps));
  const double share = std::min(1.0, after / length);
  return o.min_learning_rate +
         0.5 * (o.learning_rate - o.min_learning_rate) * (1 + std::cos(std::numbers::pi * share));
}

LossScale::LossScale(const TrainingOptions& options, bool dynamic)
    : scale_(dynamic ? options.initial_scale : 1),
      lowest_(options.min_scale),
      highest_(options.max_scale),
      window_(options.scale_window),
      dynamic_(dynamic) {}

void LossScale::update(bool overflow) {
  if (!dynamic_) return;
  if (overflow) {
    scale_ = std::max(lowest_, scale_ / 2);
    good_steps = 0;
  } else if (++good_steps >= window_) {
    scale_ = std::min(highest_, scale_ * 2);
    good_steps = 0;
  }
}

}  // namespace tpplan
