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
  double learning_rate = 6e-4;
  double min_learning_rate = 6e-5;
  std::int64_t warmup_steps = 10, total_steps = 100;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1;
  double clip = 1.0;  // of the global gradient norm; 0: none
  double dropout = 0;
  std::uint64_t seed = 1234;
  // fp16: the scale doubles after `scale_window` steps without overflow and halves at one.
  double initial_scale = 65536, min_scale = 1, max_scale = 16777216;
  std::int64_t scale_window = 1000;
  bool operator==(const TrainingOptions&) const = default;
};

}  // namespace tpplan
