#pragma once

#include <cstdint>

#include "executor/train/context.hpp"
#include "executor/train/parameter_store.hpp"

namespace tpplan {

/// One micro-batch on its way through the blocks of a stage. M = samples * sequence rows; where rows are
/// split over the tensor ranks, activations between blocks hold M / tp of them.
struct MicroBatch {
  int samples = 1;
  std::int64_t first_sample = 0;          // in the step's global batch
  const std::int32_t* inputs = nullptr;   // (M), in the backend's memory
  const std::int32_t* targets = nullptr;  // (M)
};

/// What a step fixes for all its micro-batches.
struct StepSettings {
  float dropout = 0;
  std::uint64_t seed = 0;  // of the step's dropout
  float loss_scale = 1;    // gradients are of loss_scale * mean loss of the global batch
};

/// What a layer keeps from its forward to its backward. Shapes by row; e is the format of the plan.
struct LayerActivations {
  OwnedTensor input;          // (M', h) with M' = M, or M / tp where rows are split
  OwnedTensor norm1;          // (M', h)
  OwnedTensor statistics1;    // f32 (2, M')
  OwnedTensor qkv;            // (M, (q + 2 kv) / tp), queries and keys rotated
  OwnedTensor raw_qk;         // (M, (q + kv) / tp) before the norms of queries and keys
  OwnedTensor qk_statistics;  // f32 (2, M * heads)
  OwnedTensor context;        // (M, q / tp): output of attention
  OwnedTensor lse;            // f32 (samples * heads, sequence)
  OwnedTensor middle;         // (M', h): after attention and its residual
  OwnedTensor norm2;
  OwnedTensor statistics2;
  OwnedTensor up;         // (M, f / tp), or gate and up
  OwnedTensor activated;  // (M, f / tp)
};

/// What the head keeps: logits become their gradient.
struct HeadActivations {
  OwnedTensor input, norm, statistics;
  OwnedTensor logits;                // (M, V / tp)
  OwnedTensor maximum, sum, picked;  // f32 (M)
};

/// Forward and backward of embedding, layers and head on one rank, tensor parallelism included (Shoeybi et
/// al. 2019, arXiv 1909.08053; split rows: Korthikanti et al. 2022, arXiv 2205.05198). Blocks are numbered as
/// in the ParameterStore.
class Transformer {
 public:
  Transformer(RankContext& rank, ParameterStore& store) : rank_(rank), store_(store) {}

  void begin_step(const StepSettings& settings) { settings_ = settings; }

  [[nodiscard]] OwnedTensor embed(int block, const MicroBatch& micro);
  void embed_backward(int block, const MicroBatch& micro, OwnedTensor gradient);

  /// Returns the layer's output; `kept` keeps what the plan's recomputation leaves.
  [[nodiscard]] OwnedTensor layer(int block, const MicroBatch& micro, OwnedTensor input,
                                  LayerActivations& kept);
  /// Returns the gradient of the input and lets go of `kept`.
  [[nodiscard]] OwnedTensor layer_backward(int block, const MicroBatch& micro, OwnedTensor gradient,
                                           LayerActivations& kept);

  /// Returns the sum of the losses of all tokens of the micro-batch, the same on all tensor ranks.
  [[nodiscard]] double head(int block, const MicroBatch& micro, OwnedTensor input, HeadActivations& kept);
  [[nodiscard]] OwnedTensor head_backward(int block, const MicroBatch& micro, HeadActivations& kept);

  /// Rows of activations between blocks.
  [[nodiscard]] std::int64_t boundary_rows(int samples) const;

 private:
  [[nodiscard]] OwnedTensor activation(std::int64_t rows, std::int64_t cols,
                                       MemoryCategory category = MemoryCategory::activations);
  [[nodiscard]] std::int64_t rows_of(const MicroBatch& micro) const;
  [[nodiscard]] DropoutKey dropout_key(int block, int place, const MicroBatch& micro) const;
  [[nodiscard]] AttentionArguments attention_arguments(int block, const MicroBatch& micro, Tensor qkv,
                                                       Tensor lse) const;
  void normalise(int block, Role weight, Role bias, Tensor input, OwnedTensor& output,
                 OwnedTensor& statistics);
  [[nodiscard]] OwnedTensor norm_gradient(int block, Role weight, Role bias, Tensor gradient, Tensor input,
                                          Tensor statistics, Tensor residual);
  void queries_keys_values(int block, const MicroBatch& micro, LayerActivations& kept);
  void normalise_queries_keys(int block, LayerActivations& kept);
  void queries_keys_backward(int block, Tensor gradient, LayerActivations& kept);
  void attend(int block, const MicroBatch& micro, LayerActivations& kept);
  /// The first half of the layer up to the residual, and the second up to the activation.
  void attention_half(int block, const MicroBatch& micro, LayerActivations& kept);
  void mlp_half(int block, LayerActivations& kept);
  void attention_half_backward(int block, const MicroBatch& micro, OwnedTensor& gradient,
                               LayerActivations& kept);
  void mlp_half_backward(int block, const MicroBatch& micro, OwnedTensor& gradient, LayerActivations& kept);
  /// residual + dropout(x w^T summed over the tensor ranks + bias)
  [[nodiscard]] OwnedTensor row_product(int block, int place, Role weight, Role bias, const MicroBatch& micro,
                                        Tensor x, Tensor residual);
  /// Gradient of x (M, in), from that of the sum; gradients of weight and bias are added.
  [[nodiscard]] OwnedTensor row_product_backward(int block, int place, Role weight, Role bias,
                                                 const MicroBatch& micro, Tensor gradient, Tensor x);
  /// All rows of a tensor whose rows may be split; the tensor itself where they are not.
  [[nodiscard]] Tensor all_rows(Tensor x, OwnedTensor& gathered);
  /// Sums the partial gradient of all rows over the tensor ranks, and splits rows where they are split.
  [[nodiscard]] OwnedTensor sum_rows(OwnedTensor partial);
  void weight_gradient(int block, Role role, Tensor dy, Tensor x);

  RankContext& rank_;
  ParameterStore& store_;
  StepSettings settings_;
};

}  // namespace tpplan
