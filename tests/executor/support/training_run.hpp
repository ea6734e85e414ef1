#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "executor/backend/arena.hpp"
#include "executor/train/batch_reader.hpp"
#include "executor/train/context.hpp"
#include "executor/train/trainer.hpp"
#include "simulator/engine/simulation.hpp"
#include "simulator/model/model_spec.hpp"
#include "simulator/plan/parallel_plan.hpp"

namespace tpplan::testing {

/// Small models with every feature of their family.
[[nodiscard]] ModelSpec small_gpt2();
[[nodiscard]] ModelSpec small_llama();
/// Query norms, biases and grouped queries of Qwen.
[[nodiscard]] ModelSpec small_qwen();

/// A plan for one of them: micro-batch 1, batch 8, sequence 16, even stages.
[[nodiscard]] ParallelPlan small_plan(const ModelSpec& model, int tp, int dp, int pp);

using Tensors = std::map<std::string, std::vector<double>>;

struct TrainingRun {
  std::vector<double> losses, gradient_norms;
  Tensors gradients;  // of the first step, as published tensors
  Tensors weights;    // after the last step
};

/// One rank of a plan, ready to train, and its tokens.
struct TrainingRank {
  Communicator& world;
  RankContext& context;
  Arena& arena;
  Trainer& trainer;
  BatchReader& batches;
};

/// Runs `body` on every rank of a plan, as threads. `schedule` is given apart so that it can be a wrong one.
void on_ranks(const ModelSpec& model, const ParallelPlan& plan, const TrainingOptions& options,
              const Schedule& schedule, Seconds patience, const std::function<void(TrainingRank)>& body);

/// Trains on random tokens of a fixed seed with the plan's ranks as threads.
[[nodiscard]] TrainingRun train(const ModelSpec& model, const ParallelPlan& plan,
                                const TrainingOptions& options, int steps);

/// Tokens that depend on the sample's number alone.
[[nodiscard]] SampleReader random_samples(const ModelSpec& model);

/// ||a - b|| / ||b|| by tensor, the denominator at least `floor` * sqrt(n).
[[nodiscard]] std::map<std::string, double> relative_errors(const Tensors& a, const Tensors& b, double floor);

}  // namespace tpplan::testing
