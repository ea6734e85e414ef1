#pragma once

#include <functional>
#include <memory>
#include <span>
#include <stdexcept>

#include "executor/train/pipeline.hpp"
#include "executor/train/training_options.hpp"

namespace tpplan {

/// Writes sequence + 1 tokens of a sample of the whole training run: number = step * global_batch + place in
/// the batch, so that every layout sees the same samples.
using SampleReader = std::function<void(std::int64_t number, std::span<std::int32_t> tokens)>;

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

  [[nodiscard]] StepResult step(const SampleReader& samples);
  /// Forward and backward of one step with gradients summed, but no update.
  [[nodiscard]] StepResult gradients(const SampleReader& samples);

  [[nodiscard]] std::int64_t next_step() const { return step_; }
  void set_next_step(std::int64_t step) { step_ = step; }
  [[nodiscard]] ParameterStore& store() { return store_; }
  [[nodiscard]] LossScale& loss_scale() { return scale_; }
  [[nodiscard]] const TrainingOptions& options() const { return options_; }

 private:
  void load_tokens(const SampleReader& samples);
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
  std::vector<std::int32_t> host_tokens_;
};

}  // namespace tpplan
