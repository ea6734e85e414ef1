#include "executor/train/transformer.hpp"

#include <algorithm>
#include <cmath>

namespace tpplan {
namespace {

constexpr int kPlaceEmbedding = 0, kPlaceProbabilities = 1, kPlaceAttention = 2, kPlaceMlp = 3;

}  // namespace

std::int64_t Transformer::rows_of(const MicroBatch& micro) const {
  return static_cast<std::int64_t>(micro.samples) * rank_.plan.sequence;
}

std::int64_t Transformer::boundary_rows(int samples) const {
  return static_cast<std::int64_t>(samples) * rank_.plan.sequence / (rank_.splits_rows() ? rank_.plan.tp : 1);
}

OwnedTensor Transformer::activation(std::int64_t rows, std::int64_t cols, MemoryCategory category) {
  return rank_.arena.matrix(dtype_of(rank_.plan.precision), rows, cols, category, padded_stride(cols));
}

DropoutKey Transformer::dropout_key(int block, int place, const MicroBatch& micro) const {
  const int layer = store_.blocks()[static_cast<std::size_t>(block)].layer;
  DropoutKey key;
  key.probability = settings_.dropout;
  key.seed = settings_.seed + static_cast<std::uint64_t>((layer + 1) * 4 + place) * 0x9e3779b97f4a7c15ULL;
  key.first_row = micro.first_sample * rank_.plan.sequence;
  if (rank_.splits_rows()) key.first_row += rows_of(micro) / rank_.plan.tp * rank_.at.tp;
  key.width = rank_.model.hidden;
  return key;
}

Tensor Transformer::all_rows(Tensor x, OwnedTensor& gathered) {
  if (!rank_.splits_rows()) return x;
  gathered = rank_.arena.matrix(x.type, x.rows * rank_.plan.tp, x.cols, MemoryCategory::gather_buffers);
  if (x.contiguous()) {
    tensor_all_gather(rank_, gathered.tensor, x);
  } else {
    const OwnedTensor packed = rank_.arena.matrix(x.type, x.rows, x.cols, MemoryCategory::gather_buffers);
    rank_.backend.copy(packed.tensor, x);
    tensor_all_gather(rank_, gathered.tensor, packed.tensor);
  }
  return gathered.tensor;
}

OwnedTensor Transformer::sum_rows(OwnedTensor partial) {
  if (!rank_.tensor) return partial;
  if (!rank_.splits_rows()) {
    tensor_all_reduce(rank_, partial.tensor);
    return partial;
  }
  OwnedTensor own = rank_.arena.matrix(partial.tensor.type, partial.tensor.rows / rank_.plan.tp,
                                       partial.tensor.cols, MemoryCategory::activations);
  tensor_reduce_scatter(rank_, own.tensor, partial.tensor);
  return own;
}

void Transformer::weight_gradient(int block, Role role, Tensor dy, Tensor x) {
  const GradientRef ref = store_.gradient(block, role);
  rank_.backend.matmul(ref.tensor, dy, true, x, false, ref.fresh ? 0.0F : 1.0F);
}

void Transformer::normalise(int block, Role weight, Role bias, Tensor input, OwnedTensor& output,
                            OwnedTensor& statistics) {
  output = rank_.arena.matrix(input.type, input.rows, input.cols, MemoryCategory::activations);
  statistics = rank_.arena.matrix(DType::f32, 2, input.rows, MemoryCategory::activations);
  rank_.backend.norm(rank_.model.norm, output.tensor, statistics.tensor, input, store_.weight(block, weight),
                     store_.weight(block, bias), static_cast<float>(rank_.model.norm_epsilon));
}

OwnedTensor Transformer::norm_gradient(int block, Role weight, Role bias, Tensor gradient, Tensor input,
                                       Tensor statistics, Tensor residual) {
  OwnedTensor dx = rank_.arena.matrix(input.type, input.rows, input.cols, MemoryCategory::workspace);
  rank_.backend.norm_backward(rank_.model.norm, dx.tensor, residual, store_.added_gradient(block, weight),
                              store_.added_gradient(block, bias), gradient, input, statistics,
                              store_.weight(block, weight));
  return dx;
}

// Products between blocks are summed over ranks, so their rows must lie without gaps.
OwnedTensor Transformer::row_product(int block, int place, Role weight, Role bias, const MicroBatch& micro,
                                     Tensor x, Tensor residual) {
  OwnedTensor product = rank_.arena.matrix(x.type, x.rows, rank_.model.hidden, MemoryCategory::activations);
  const Tensor b = store_.weight(block, bias);
  if (rank_.tensor) {
    rank_.backend.linear(product.tensor, x, store_.weight(block, weight), {});
    product = sum_rows(std::move(product));
    if (b.data != nullptr) rank_.backend.add_bias(product.tensor, b);
  } else {
    rank_.backend.linear(product.tensor, x, store_.weight(block, weight), b);
  }
  rank_.backend.dropout_add(product.tensor, residual, product.tensor, dropout_key(block, place, micro));
  return product;
}

AttentionArguments Transformer::attention_arguments(int block, const MicroBatch& micro, Tensor qkv,
                                                    Tensor lse) const {
  const ModelSpec& m = rank_.model;
  AttentionArguments a;
  a.samples = micro.samples;
  a.sequence = rank_.plan.sequence;
  a.heads = m.heads / rank_.plan.tp;
  a.kv_heads = std::max(1, m.kv_heads / rank_.plan.tp);
  a.head_dim = m.head_dim;
  const std::int64_t q = static_cast<std::int64_t>(a.heads) * m.head_dim;
  const std::int64_t kv = static_cast<std::int64_t>(a.kv_heads) * m.head_dim;
  a.q = qkv.col_range(0, q);
  a.k = qkv.col_range(q, kv);
  a.v = qkv.col_range(q + kv, kv);
  a.lse = lse;
  a.scale = 1.0F / std::sqrt(static_cast<float>(m.head_dim));
  a.dropout = dropout_key(block, kPlaceProbabilities, micro);
  a.first_sample = micro.first_sample;
  a.first_head = rank_.at.tp * a.heads;
  a.all_heads = m.heads;
  return a;
}

void Transformer::queries_keys_values(int block, const MicroBatch& micro, LayerActivations& kept) {
  OwnedTensor gathered;
  const Tensor x = all_rows(kept.norm1.tensor, gathered);
  const Tensor w = store_.weight(block, Role::qkv_weight);
  kept.qkv = activation(x.rows, w.rows);
  rank_.backend.linear(kept.qkv.tensor, x, w, store_.weight(block, Role::qkv_bias));
  if (rank_.model.qk_norm) normalise_queries_keys(block, kept);
  if (rank_.model.position != PositionKind::rotary) return;
  const AttentionArguments a = attention_arguments(block, micro, kept.qkv.tensor, {});
  rank_.backend.rotate(a.q, a.heads, a.head_dim, a.sequence, rank_.model.rope_theta, false);
  rank_.backend.rotate(a.k, a.kv_heads, a.head_dim, a.sequence, rank_.model.rope_theta, false);
}

/// RMSNorm over each head of the queries and keys. The raw values are copied to a matrix with one head a row.
void Transformer::normalise_queries_keys(int block, LayerActivations& kept) {
  const int d = rank_.model.head_dim;
  const int q = rank_.model.heads / rank_.plan.tp, k = std::max(1, rank_.model.kv_heads / rank_.plan.tp);
  const Tensor qkv = kept.qkv.tensor;
  kept.raw_qk = rank_.arena.matrix(qkv.type, qkv.rows, static_cast<std::int64_t>(q + k) * d,
                                   MemoryCategory::activations);
  kept.qk_statistics = rank_.arena.matrix(DType::f32, 2, qkv.rows * (q + k), MemoryCategory::activations);
  const Tensor raw = kept.raw_qk.tensor;
  rank_.backend.copy(raw, qkv.col_range(0, raw.cols));
  for (int h = 0; h < q + k; ++h)
    rank_.backend.norm(NormKind::rms_norm, qkv.col_range(static_cast<std::int64_t>(h) * d, d),
                       kept.qk_statistics.tensor.col_range(h * qkv.rows, qkv.rows),
                       raw.col_range(static_cast<std::int64_t>(h) * d, d),
                       store_.weight(block, h < q ? Role::q_norm : Role::k_norm), {},
                       static_cast<float>(rank_.model.norm_epsilon));
}

/// Gradients of the raw queries and keys, in place.
void Transformer::queries_keys_backward(int block, Tensor gradient, LayerActivations& kept) {
  const int d = rank_.model.head_dim;
  const int q = rank_.model.heads / rank_.plan.tp, k = std::max(1, rank_.model.kv_heads / rank_.plan.tp);
  for (int h = 0; h < q + k; ++h) {
    const Role role = h < q ? Role::q_norm : Role::k_norm;
    const Tensor of_head = gradient.col_range(static_cast<std::int64_t>(h) * d, d);
    const OwnedTensor copy = rank_.arena.matrix(gradient.type, gradient.rows, d, MemoryCategory::workspace);
    rank_.backend.copy(copy.tensor, of_head);
    rank_.backend.norm_backward(
        NormKind::rms_norm, of_head, {}, store_.added_gradient(block, role), {}, copy.tensor,
        kept.raw_qk.tensor.col_range(static_cast<std::int64_t>(h) * d, d),
        kept.qk_statistics.tensor.col_range(h * gradient.rows, gradient.rows), store_.weight(block, role));
  }
}

void Transformer::attend(int block, const MicroBatch& micro, LayerActivations& kept) {
  const int heads = rank_.model.heads / rank_.plan.tp;
  kept.lse = rank_.arena.matrix(DType::f32, static_cast<std::int64_t>(micro.samples) * heads,
                                rank_.plan.sequence, MemoryCategory::activations);
  kept.context = activation(rows_of(micro), static_cast<std::int64_t>(heads) * rank_.model.head_dim);
  rank_.backend.attention(kept.context.tensor,
                          attention_arguments(block, micro, kept.qkv.tensor, kept.lse.tensor));
}

// Each step runs where its result is missing: in the forward all of them, in the backward those that the
// plan's recomputation did not keep.
void Transformer::attention_half(int block, const MicroBatch& micro, LayerActivations& kept) {
  if (!kept.norm1)
    normalise(block, Role::norm1_weight, Role::norm1_bias, kept.input.tensor, kept.norm1, kept.statistics1);
  if (!kept.qkv) queries_keys_values(block, micro, kept);
  if (!kept.context) attend(block, micro, kept);
  if (!kept.middle)
    kept.middle = row_product(block, kPlaceAttention, Role::out_weight, Role::out_bias, micro,
                              kept.context.tensor, kept.input.tensor);
}

void Transformer::mlp_half(int block, LayerActivations& kept) {
  if (!kept.norm2)
    normalise(block, Role::norm2_weight, Role::norm2_bias, kept.middle.tensor, kept.norm2, kept.statistics2);
  if (!kept.up) {
    OwnedTensor gathered;
    const Tensor x = all_rows(kept.norm2.tensor, gathered);
    const Tensor w = store_.weight(block, Role::up_weight);
    kept.up = activation(x.rows, w.rows);
    rank_.backend.linear(kept.up.tensor, x, w, store_.weight(block, Role::up_bias));
  }
  if (!kept.activated) {
    kept.activated = activation(kept.up.tensor.rows, rank_.model.ffn / rank_.plan.tp);
    rank_.backend.activation(rank_.model.activation, rank_.model.gated_mlp, kept.activated.tensor,
                             kept.up.tensor);
  }
}

OwnedTensor Transformer::layer(int block, const MicroBatch& micro, OwnedTensor input,
                               LayerActivations& kept) {
  kept.input = std::move(input);
  attention_half(block, micro, kept);
  mlp_half(block, kept);
  OwnedTensor output = row_product(block, kPlaceMlp, Role::down_weight, Role::down_bias, micro,
                                   kept.activated.tensor, kept.middle.tensor);
  switch (rank_.plan.recompute) {
    case Recompute::none:
      break;
    case Recompute::selective:  // everything that no product makes
      for (OwnedTensor* part : {&kept.norm1, &kept.context, &kept.lse, &kept.norm2, &kept.activated})
        part->reset();
      break;
    case Recompute::full: {
      LayerActivations only_input;
      only_input.input = std::move(kept.input);
      kept = std::move(only_input);
      break;
    }
  }
  return output;
}

OwnedTensor Transformer::row_product_backward(int block, int place, Role weight, Role bias,
                                              const MicroBatch& micro, Tensor gradient, Tensor x) {
  OwnedTensor dropped, gathered;
  if (settings_.dropout > 0) {
    dropped = rank_.arena.matrix(gradient.type, gradient.rows, gradient.cols, MemoryCategory::workspace);
    rank_.backend.dropout(dropped.tensor, gradient, dropout_key(block, place, micro));
    gradient = dropped.tensor;
  }
  if (store_.has(block, bias)) rank_.backend.add_column_sums(store_.added_gradient(block, bias), gradient);
  const Tensor all = all_rows(gradient, gathered);
  weight_gradient(block, weight, all, x);
  OwnedTensor dx = activation(all.rows, x.cols, MemoryCategory::workspace);
  rank_.backend.matmul(dx.tensor, all, false, store_.weight(block, weight), false, 0);
  return dx;
}

void Transformer::mlp_half_backward(int block, const MicroBatch& micro, OwnedTensor& gradient,
                                    LayerActivations& kept) {
  Backend& backend = rank_.backend;
  OwnedTensor d_activated = row_product_backward(block, kPlaceMlp, Role::down_weight, Role::down_bias, micro,
                                                 gradient.tensor, kept.activated.tensor);
  kept.activated.reset();
  // The gradient takes the place of the product.
  backend.activation_backward(rank_.model.activation, rank_.model.gated_mlp, kept.up.tensor,
                              d_activated.tensor, kept.up.tensor);
  d_activated.reset();
  const Tensor d_up = kept.up.tensor;
  if (store_.has(block, Role::up_bias))
    backend.add_column_sums(store_.added_gradient(block, Role::up_bias), d_up);
  OwnedTensor again;
  weight_gradient(block, Role::up_weight, d_up, all_rows(kept.norm2.tensor, again));
  again.reset();
  OwnedTensor d_norm =
      rank_.arena.matrix(d_up.type, d_up.rows, rank_.model.hidden, MemoryCategory::workspace);
  backend.matmul(d_norm.tensor, d_up, false, store_.weight(block, Role::up_weight), false, 0);
  kept.up.reset();
  kept.norm2.reset();
  d_norm = sum_rows(std::move(d_norm));
  gradient = norm_gradient(block, Role::norm2_weight, Role::norm2_bias, d_norm.tensor, kept.middle.tensor,
                           kept.statistics2.tensor, gradient.tensor);
  kept.middle.reset();
}

void Transformer::attention_half_backward(int block, const MicroBatch& micro, OwnedTensor& gradient,
                                          LayerActivations& kept) {
  Backend& backend = rank_.backend;
  OwnedTensor d_context = row_product_backward(block, kPlaceAttention, Role::out_weight, Role::out_bias,
                                               micro, gradient.tensor, kept.context.tensor);
  OwnedTensor d_qkv = activation(kept.qkv.tensor.rows, kept.qkv.tensor.cols, MemoryCategory::workspace);
  const AttentionArguments a = attention_arguments(block, micro, kept.qkv.tensor, kept.lse.tensor);
  const AttentionArguments d = attention_arguments(block, micro, d_qkv.tensor, {});
  backend.attention_backward(d.q, d.k, d.v, kept.context.tensor, d_context.tensor, a);
  for (OwnedTensor* part : {&d_context, &kept.context, &kept.qkv, &kept.lse}) part->reset();
  if (rank_.model.position == PositionKind::rotary) {
    backend.rotate(d.q, a.heads, a.head_dim, a.sequence, rank_.model.rope_theta, true);
    backend.rotate(d.k, a.kv_heads, a.head_dim, a.sequence, rank_.model.rope_theta, true);
  }
  if (rank_.model.qk_norm) queries_keys_backward(block, d_qkv.tensor, kept);
  // The input's gradient sums what every copy of a key head adds; the key's weights need that sum first.
  OwnedTensor d_norm =
      rank_.arena.matrix(d_qkv.tensor.type, d_qkv.tensor.rows, rank_.model.hidden, MemoryCategory::workspace);
  backend.matmul(d_norm.tensor, d_qkv.tensor, false, store_.weight(block, Role::qkv_weight), false, 0);
  if (rank_.kv_copies) {
    const Tensor kv = d_qkv.tensor.col_range(d.q.cols, 2 * d.k.cols);
    const OwnedTensor packed = rank_.arena.matrix(kv.type, kv.rows, kv.cols, MemoryCategory::workspace);
    backend.copy(packed.tensor, kv);
    rank_.kv_copies->all_reduce(packed.tensor);
    backend.copy(kv, packed.tensor);
  }
  if (store_.has(block, Role::qkv_bias))
    backend.add_column_sums(store_.added_gradient(block, Role::qkv_bias), d_qkv.tensor);
  OwnedTensor again;
  weight_gradient(block, Role::qkv_weight, d_qkv.tensor, all_rows(kept.norm1.tensor, again));
  again.reset();
  d_qkv.reset();
  d_norm = sum_rows(std::move(d_norm));
  gradient = norm_gradient(block, Role::norm1_weight, Role::norm1_bias, d_norm.tensor, kept.input.tensor,
                           kept.statistics1.tensor, gradient.tensor);
}

OwnedTensor Transformer::layer_backward(int block, const MicroBatch& micro, OwnedTensor gradient,
                                        LayerActivations& kept) {
  attention_half(block, micro, kept);
  mlp_half(block, kept);
  mlp_half_backward(block, micro, gradient, kept);
  attention_half_backward(block, micro, gradient, kept);
  kept = {};
  return gradient;
}

OwnedTensor Transformer::embed(int block, const MicroBatch& micro) {
  const ModelSpec& m = rank_.model;
  const Tensor table = store_.weight(block, Role::token_embedding);
  OwnedTensor x = rank_.arena.matrix(table.type, rows_of(micro), m.hidden, MemoryCategory::activations);
  rank_.backend.embed(x.tensor, micro.inputs, table, table.rows * rank_.at.tp);
  x = sum_rows(std::move(x));
  const DropoutKey key = dropout_key(block, kPlaceEmbedding, micro);
  const std::int64_t first_row = rank_.splits_rows() ? x.tensor.rows * rank_.at.tp : 0;
  if (m.position == PositionKind::learned)
    rank_.backend.add_positions(x.tensor, store_.weight(block, Role::position_embedding), first_row,
                                rank_.plan.sequence);
  if (settings_.dropout > 0) rank_.backend.dropout(x.tensor, x.tensor, key);
  return x;
}

void Transformer::embed_backward(int block, const MicroBatch& micro, OwnedTensor gradient) {
  const std::int64_t first_row = rank_.splits_rows() ? gradient.tensor.rows * rank_.at.tp : 0;
  if (settings_.dropout > 0)
    rank_.backend.dropout(gradient.tensor, gradient.tensor, dropout_key(block, kPlaceEmbedding, micro));
  if (rank_.model.position == PositionKind::learned)
    rank_.backend.positions_backward(store_.added_gradient(block, Role::position_embedding), gradient.tensor,
                                     first_row, rank_.plan.sequence);
  OwnedTensor gathered;
  const Tensor all = all_rows(gradient.tensor, gathered);
  const Tensor table = store_.added_gradient(block, Role::token_embedding);
  rank_.backend.embed_backward(table, micro.inputs, all, table.rows * rank_.at.tp);
}

double Transformer::head(int block, const MicroBatch& micro, OwnedTensor input, HeadActivations& kept) {
  Backend& backend = rank_.backend;
  kept.input = std::move(input);
  normalise(block, Role::final_norm_weight, Role::final_norm_bias, kept.input.tensor, kept.norm,
            kept.statistics);
  OwnedTensor gathered;
  const Tensor x = all_rows(kept.norm.tensor, gathered);
  const Tensor w = store_.weight(block, Role::head_weight);
  kept.logits = activation(x.rows, w.rows, MemoryCategory::logits);
  backend.linear(kept.logits.tensor, x, w, {});
  gathered.reset();
  for (OwnedTensor* part : {&kept.maximum, &kept.sum, &kept.picked})
    *part = rank_.arena.matrix(DType::f32, 1, x.rows, MemoryCategory::logits);
  const std::int64_t first = w.rows * rank_.at.tp;
  const std::int64_t valid = std::clamp<std::int64_t>(rank_.model.vocabulary - first, 0, w.rows);
  backend.softmax_statistics(kept.maximum.tensor, kept.sum.tensor, kept.picked.tensor, kept.logits.tensor,
                             micro.targets, first, valid);
  if (rank_.tensor) {
    const OwnedTensor own = rank_.arena.matrix(DType::f32, 1, x.rows, MemoryCategory::logits);
    backend.copy(own.tensor, kept.maximum.tensor);
    backend.synchronise();
    const Seconds start = rank_.recorder.now();
    rank_.tensor->all_reduce(kept.maximum.tensor, ReduceOp::max);
    rank_.recorder.add_communication(rank_.recorder.now() - start);
    backend.rescale_sums(kept.sum.tensor, own.tensor, kept.maximum.tensor);
    tensor_all_reduce(rank_, kept.sum.tensor);
    tensor_all_reduce(rank_, kept.picked.tensor);
  }
  return backend.loss_sum(kept.maximum.tensor, kept.sum.tensor, kept.picked.tensor);
}

OwnedTensor Transformer::head_backward(int block, const MicroBatch& micro, HeadActivations& kept) {
  Backend& backend = rank_.backend;
  const Tensor w = store_.weight(block, Role::head_weight);
  const std::int64_t first = w.rows * rank_.at.tp;
  const std::int64_t valid = std::clamp<std::int64_t>(rank_.model.vocabulary - first, 0, w.rows);
  const double tokens = static_cast<double>(rank_.plan.global_batch) * rank_.plan.sequence;
  backend.softmax_gradient(kept.logits.tensor, kept.maximum.tensor, kept.sum.tensor, micro.targets, first,
                           valid, static_cast<float>(static_cast<double>(settings_.loss_scale) / tokens));
  OwnedTensor gathered;
  weight_gradient(block, Role::head_weight, kept.logits.tensor, all_rows(kept.norm.tensor, gathered));
  gathered.reset();
  OwnedTensor d_norm =
      rank_.arena.matrix(w.type, kept.logits.tensor.rows, rank_.model.hidden, MemoryCategory::workspace);
  backend.matmul(d_norm.tensor, kept.logits.tensor, false, w, false, 0);
  kept.logits.reset();
  d_norm = sum_rows(std::move(d_norm));
  OwnedTensor dx = norm_gradient(block, Role::final_norm_weight, Role::final_norm_bias, d_norm.tensor,
                                 kept.input.tensor, kept.statistics.tensor, {});
  kept = {};
  return dx;
}

}  // namespace tpplan
