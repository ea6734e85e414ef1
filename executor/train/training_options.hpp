#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tpplan {

enum class OptimizerKind : std::uint8_t { adamw, sgd };
inline constexpr std::array<std::string_view, 2> kOptimizerNames{"adamw", "sgd"};

/// What training needs beside model and plan.
struct TrainingOptions {
  OptimizerKind optimizer = OptimizerKind::adamw;
  double learning_rate = 6e-4, min_learning_rate = 6e-5;
  std::int64_t warmup_steps = 10, total_steps = 100;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double clip = 1.0;  // of the global gradient norm; 0: none
  double dropout = 0;
  std::uint64_t seed = 1234;
  // fp16: the scale doubles after `scale_window` steps without overflow and halves at one.
  double initial_scale = 65536, min_scale = 1, max_scale = 16777216;
  std::int64_t scale_window = 1000;
};

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
