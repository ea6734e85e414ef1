#pragma once

#include "simulator/plan/training_options.hpp"

namespace tpplan {

/// Rate of step `step`, counted from 0: linear warm-up, then a cosine down to the minimum at `total_steps`
/// (Loshchilov & Hutter 2017, arXiv 1608.03983, without restarts).
[[nodiscard]] double learning_rate_at(const TrainingOptions& options, std::int64_t step);

/// Dynamic loss scale (Micikevicius et al. 2018, arXiv 1710.03740); 1 for formats that need none.
class LossScale {
 public:
  LossScale(const TrainingOptions& options, bool dynamic);
  [[nodiscard]] double value() const { return scale_; }
  /// After a step; `overflow`: some gradient of some rank was not finite.
  void update(bool overflow);
  [[nodiscard]] bool dynamic() const { return dynamic_; }

  std::int64_t good_steps = 0;  // since the last change; part of a checkpoint
  void restore(double scale, std::int64_t steps) { scale_ = scale, good_steps = steps; }

 private:
  double scale_;
  double lowest_, highest_;
  std::int64_t window_;
  bool dynamic_;
};

}  // namespace tpplan
