#include "executor/train/parameters.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include "simulator/plan/problem.hpp"

namespace tpplan {
namespace {

/// Builds the parameters of one block.
class Inventory {
 public:
  Inventory(const ModelSpec& model, const ParallelPlan& plan, int layer, int tp_rank)
      : model_(model), plan_(plan), layer_(layer), tp_(tp_rank), gpt2_(has_gpt2_names(model)) {}

  [[nodiscard]] std::vector<Parameter> embedding();
  [[nodiscard]] std::vector<Parameter> layer();
  [[nodiscard]] std::vector<Parameter> head(bool tied_copy);

 private:
  Parameter& add(Role role, std::string_view name, std::int64_t rows, std::int64_t cols) {
    Parameter p;
    p.role = role;
    p.name = layer_ >= 0 ? fmt::format("layers.{}.{}", layer_, name) : std::string(name);
    p.rows = rows;
    p.cols = cols;
    p.stride = padded_stride(cols);
    p.decay = cols > 1;
    out_.push_back(std::move(p));
    return out_.back();
  }
  /// A vector that every tensor rank holds whole.
  void add_vector(Role role, std::string_view name, const std::string& tensor, std::int64_t length,
                  bool tensor_partial) {
    Parameter& p = add(role, name, length, 1);
    p.tensor_partial = tensor_partial && plan_.tp > 1;
    p.parts.push_back({.tensor = tensor, .rows = length, .tensor_rows = length, .counts = tp_ == 0});
  }
  void add_norm(Role weight, Role bias, std::string_view name, const std::string& tensor) {
    add_vector(weight, fmt::format("{}.weight", name), tensor + ".weight", model_.hidden,
               plan_.sequence_parallel);
    if (model_.norm == NormKind::layer_norm)
      add_vector(bias, fmt::format("{}.bias", name), tensor + ".bias", model_.hidden,
                 plan_.sequence_parallel);
  }
  void add_vocabulary(Role role, std::string_view name, const std::string& tensor, bool counts);
  void add_attention();
  void add_row_product(Role weight, Role bias, std::string_view name, const std::string& tensor,
                       std::int64_t in, bool has_bias);
  /// Adds to `p` the rows of one published tensor that this rank holds: `rows` from `first_row` on.
  static void add_rows(Parameter& p, const std::string& tensor, std::int64_t rows, std::int64_t tensor_rows,
                       std::int64_t first_row, bool transposed, bool counts) {
    const std::int64_t row = p.parts.empty() ? 0 : p.parts.back().row + p.parts.back().rows;
    p.parts.push_back({.tensor = tensor,
                       .row = row,
                       .rows = rows,
                       .tensor_rows = tensor_rows,
                       .tensor_cols = p.cols > 1 ? p.cols : 0,
                       .first_row = first_row,
                       .transposed = transposed && p.cols > 1,
                       .counts = counts});
  }
  [[nodiscard]] std::string prefix() const {
    return fmt::format("{}.{}.", gpt2_ ? "transformer.h" : "model.layers", layer_);
  }

  const ModelSpec& model_;
  const ParallelPlan& plan_;
  int layer_, tp_;
  bool gpt2_;
  std::vector<Parameter> out_;
};

void Inventory::add_vocabulary(Role role, std::string_view name, const std::string& tensor, bool counts) {
  const std::int64_t local = padded_vocabulary(model_.vocabulary, plan_.tp) / plan_.tp;
  const std::int64_t first = local * tp_;
  Parameter& p = add(role, name, local, model_.hidden);
  // Padding rows belong to no tensor.
  const std::int64_t rows = std::clamp<std::int64_t>(model_.vocabulary - first, 0, local);
  if (rows > 0) add_rows(p, tensor, rows, model_.vocabulary, first, false, counts);
}

void Inventory::add_attention() {
  const std::int64_t d = model_.head_dim;
  const std::int64_t q = model_.heads / plan_.tp * d;
  const int copies = std::max(1, plan_.tp / model_.kv_heads);
  const std::int64_t kv = std::max(1, model_.kv_heads / plan_.tp) * d;
  const std::int64_t first_kv = tp_ / copies * kv;
  const bool counts = tp_ % copies == 0;
  const auto add_qkv = [&](Role role, std::string_view name, std::int64_t cols, std::string_view kind) {
    Parameter& p = add(role, name, q + 2 * kv, cols);
    p.decay = cols > 1;
    if (gpt2_) {
      const std::string tensor = fmt::format("{}attn.c_attn.{}", prefix(), kind);
      const std::int64_t all_q = model_.q_width(), all_kv = model_.kv_width(), all = all_q + 2 * all_kv;
      add_rows(p, tensor, q, all, tp_ * q, true, true);
      add_rows(p, tensor, kv, all, all_q + first_kv, true, counts);
      add_rows(p, tensor, kv, all, all_q + all_kv + first_kv, true, counts);
    } else {
      const std::string attention = prefix() + "self_attn.";
      add_rows(p, fmt::format("{}q_proj.{}", attention, kind), q, model_.q_width(), tp_ * q, false, true);
      add_rows(p, fmt::format("{}k_proj.{}", attention, kind), kv, model_.kv_width(), first_kv, false,
               counts);
      add_rows(p, fmt::format("{}v_proj.{}", attention, kind), kv, model_.kv_width(), first_kv, false,
               counts);
    }
  };
  add_qkv(Role::qkv_weight, "qkv.weight", model_.hidden, "weight");
  if (model_.qkv_bias) add_qkv(Role::qkv_bias, "qkv.bias", 1, "bias");
  if (model_.qk_norm) {
    add_vector(Role::q_norm, "q_norm.weight", prefix() + "self_attn.q_norm.weight", d, true);
    add_vector(Role::k_norm, "k_norm.weight", prefix() + "self_attn.k_norm.weight", d, true);
  }
  add_row_product(Role::out_weight, Role::out_bias, "out",
                  prefix() + (gpt2_ ? "attn.c_proj" : "self_attn.o_proj"), model_.q_width(),
                  model_.attention_out_bias);
}

void Inventory::add_row_product(Role weight, Role bias, std::string_view name, const std::string& tensor,
                                std::int64_t in, bool has_bias) {
  const std::int64_t cols = in / plan_.tp;
  Parameter& p = add(weight, fmt::format("{}.weight", name), model_.hidden, cols);
  p.parts.push_back({.tensor = tensor + ".weight",
                     .rows = model_.hidden,
                     .tensor_rows = model_.hidden,
                     .tensor_cols = in,
                     .first_col = tp_ * cols,
                     .transposed = gpt2_});
  if (has_bias)
    add_vector(bias, fmt::format("{}.bias", name), tensor + ".bias", model_.hidden, plan_.sequence_parallel);
}

std::vector<Parameter> Inventory::embedding() {
  add_vocabulary(Role::token_embedding, "embedding.weight",
                 gpt2_ ? "transformer.wte.weight" : "model.embed_tokens.weight", true);
  if (model_.position == PositionKind::learned) {
    Parameter& p = add(Role::position_embedding, "positions.weight", model_.learned_positions, model_.hidden);
    p.tensor_partial = plan_.sequence_parallel;
    add_rows(p, "transformer.wpe.weight", p.rows, p.rows, 0, false, tp_ == 0);
  }
  return std::move(out_);
}

std::vector<Parameter> Inventory::layer() {
  add_norm(Role::norm1_weight, Role::norm1_bias, "norm1", prefix() + (gpt2_ ? "ln_1" : "input_layernorm"));
  add_attention();
  add_norm(Role::norm2_weight, Role::norm2_bias, "norm2",
           prefix() + (gpt2_ ? "ln_2" : "post_attention_layernorm"));
  const std::int64_t f = model_.ffn / plan_.tp;
  const auto add_up = [&](Role role, std::string_view name, std::int64_t cols, std::string_view kind) {
    Parameter& p = add(role, name, model_.gated_mlp ? 2 * f : f, cols);
    if (gpt2_) {
      add_rows(p, fmt::format("{}mlp.c_fc.{}", prefix(), kind), f, model_.ffn, tp_ * f, true, true);
    } else {
      if (model_.gated_mlp)
        add_rows(p, fmt::format("{}mlp.gate_proj.{}", prefix(), kind), f, model_.ffn, tp_ * f, false, true);
      add_rows(p, fmt::format("{}mlp.up_proj.{}", prefix(), kind), f, model_.ffn, tp_ * f, false, true);
    }
  };
  add_up(Role::up_weight, "up.weight", model_.hidden, "weight");
  if (model_.mlp_bias) add_up(Role::up_bias, "up.bias", 1, "bias");
  add_row_product(Role::down_weight, Role::down_bias, "down",
                  prefix() + (gpt2_ ? "mlp.c_proj" : "mlp.down_proj"), model_.ffn, model_.mlp_bias);
  return std::move(out_);
}

std::vector<Parameter> Inventory::head(bool tied_copy) {
  add_norm(Role::final_norm_weight, Role::final_norm_bias, "final_norm",
           gpt2_ ? "transformer.ln_f" : "model.norm");
  if (!model_.tied_embeddings)
    add_vocabulary(Role::head_weight, "head.weight", "lm_head.weight", true);
  else if (tied_copy)
    add_vocabulary(Role::head_weight, "head.weight",
                   gpt2_ ? "transformer.wte.weight" : "model.embed_tokens.weight", false);
  return std::move(out_);
}

}  // namespace

bool has_gpt2_names(const ModelSpec& model) { return model.position == PositionKind::learned; }

std::string why_not_trainable(const ModelSpec& m) {
  if (m.moe) return "mixture of experts cannot be trained yet";
  if (m.parallel_block) return "blocks whose attention and MLP read the same input cannot be trained yet";
  if (m.embedding_norm) return "a norm after the embedding cannot be trained yet";
  if (m.norms_per_layer != 2)
    return fmt::format("{} norms a layer cannot be trained yet, only 2", m.norms_per_layer);
  if (!m.final_norm) return "a model without a final norm cannot be trained yet";
  if (m.embedding_width > 0) return "a projected embedding cannot be trained yet";
  if (m.head_bias) return "a bias of the head cannot be trained yet";
  if (m.rope_scaled) return "stretched rotary frequencies (rope_scaling) cannot be trained yet";
  if (m.position == PositionKind::alibi) return "ALiBi positions cannot be trained yet";
  if (m.position == PositionKind::rotary && m.head_dim % 2 != 0)
    return "rotary positions need an even head_dim";
  if (has_gpt2_names(m) && (m.gated_mlp || m.kv_heads != m.heads || m.qk_norm))
    return "learned positions together with a gated MLP, grouped queries or query norms have no published "
           "checkpoint names";
  return {};
}

BlockParameterList parameters_of(const ModelSpec& model, const ParallelPlan& plan, BlockKind kind, int layer,
                                 int tp_rank, bool tied_copy) {
  Inventory inventory(model, plan, kind == BlockKind::layer ? layer : -1, tp_rank);
  BlockParameterList block{kind, layer, {}};
  switch (kind) {
    case BlockKind::embedding:
      block.parameters = inventory.embedding();
      break;
    case BlockKind::layer:
      block.parameters = inventory.layer();
      break;
    case BlockKind::head:
      block.parameters = inventory.head(tied_copy);
      break;
  }
  return block;
}

std::vector<PublishedTensor> published_tensors(const ModelSpec& model) {
  std::vector<PublishedTensor> tensors;
  std::set<std::string> seen;
  const auto add_block = [&](BlockKind kind, int layer) {
    for (const Parameter& p : parameters_of(model, {}, kind, layer, 0, false).parameters)
      for (const Part& part : p.parts) {
        if (!seen.insert(part.tensor).second) continue;
        std::vector<std::int64_t> shape{part.tensor_rows};
        if (part.tensor_cols > 0) shape.push_back(part.tensor_cols);
        if (part.transposed) std::swap(shape[0], shape[1]);
        tensors.push_back({part.tensor, shape});
      }
  };
  add_block(BlockKind::embedding, -1);
  for (int layer = 0; layer < model.layers; ++layer) add_block(BlockKind::layer, layer);
  add_block(BlockKind::head, -1);
  return tensors;
}

}  // namespace tpplan
