#pragma once

#include <memory>
#include <span>
#include <stdexcept>

#include "executor/train/learning_rate.hpp"
#include "executor/train/pipeline.hpp"

namespace tpplan {

/// A gradient or a weight became infinite or not a number: which tensor, on which rank, in which step.
class NotFinite : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct StepResult {
  std::int64_t step = 0;
  double loss = 0;           // mean over the tokens of the global batch
  double gradient_norm = 0;  // before clipping, loss scale taken out
  double learning_rate = 0;
  double loss_scale = 1;
  bool skipped = false;  // fp16: gradients overflowed, nothing was updated
};

/// Trains one rank's part of a plan, step by step. All ranks call the same functions together.
class Trainer {
 public:
  /// `schedule` is given apart so that a rehearsal can be shown a wrong one.
  Trainer(RankContext& rank, const TrainingOptions& options, Schedule schedule);

  /// Weights as a function of the seed and their place in the published tensor: normal with deviation 0.02,
  /// output products by 1 / sqrt(2 layers) less (Radford et al. 2019), norms 1, biases 0.
  void initialise();

  /// `tokens` as a BatchReader gives them.
  [[nodiscard]] StepResult step(std::span<const std::int32_t> tokens);
  /// Forward and backward of one step with gradients summed, but no update.
  [[nodiscard]] StepResult gradients(std::span<const std::int32_t> tokens);

  [[nodiscard]] std::int64_t next_step() const { return step_; }
  void set_next_step(std::int64_t step) { step_ = step; }
  [[nodiscard]] ParameterStore& store() { return store_; }
  [[nodiscard]] LossScale& loss_scale() { return scale_; }
  [[nodiscard]] const TrainingOptions& options() const { return options_; }

 private:
  [[noreturn]] void report_not_finite(double loss);

  RankContext& rank_;
  TrainingOptions options_;
  Schedule schedule_;
  std::unique_ptr<Lane> data_lane_;
  ParameterStore store_;
  Pipeline pipeline_;
  LossScale scale_;
  std::int64_t step_ = 0;
  Buffer tokens_;  // i32, for each micro-batch its inputs and its targets
};

}  // namespace tpplan
