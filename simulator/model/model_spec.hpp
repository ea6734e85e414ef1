#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tpplan {

enum class NormKind { layer_norm, rms_norm };
enum class ActivationKind { gelu, relu, silu };
enum class PositionKind { none, learned, rotary, alibi };

/// Mixture of experts. Readers fill it so that a model is understood whole; plans for such a model are
/// refused with a reason until its cost is modelled.
struct MoeSpec {
  int experts = 0;
  int top_k = 0;
  int expert_ffn = 0;
  int shared_ffn = 0;          // 0: no shared expert
  int first_dense_layers = 0;  // layers before the first expert layer
  bool operator==(const MoeSpec&) const = default;
};

/// Architecture of a decoder-only transformer. A plain value, checked once by the reader that made it.
/// h hidden, a heads, k KV heads, d head_dim, f ffn, V vocabulary, s sequence, L layers.
struct ModelSpec {
  std::string name;
  std::string
      family;  // "gpt2", "llama", "qwen3", ...: the Hugging Face model_type, or "gpt" / "llama" of our YAML
  int layers = 0;
  std::int64_t hidden = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocabulary = 0;
  std::int64_t max_positions = 0;  // 0: no limit stated
  int sequence = 0;                // tokens of a training sample; 0: not stated
  std::int64_t global_batch = 0;   // tokens of an optimizer step; 0: not stated

  bool gated_mlp = false;  // SwiGLU / GeGLU: three matrices instead of two
  ActivationKind activation = ActivationKind::gelu;
  NormKind norm = NormKind::layer_norm;
  PositionKind position = PositionKind::learned;
  int norms_per_layer = 2;  // gemma2 has 4; falcon's parallel block may have 1
  bool final_norm = true;
  bool embedding_norm = false;  // bloom: a norm after the embedding
  bool parallel_block =
      false;             // attention and MLP read the same input (falcon, gpt_neox): still two row products
  bool qk_norm = false;  // qwen3: RMSNorm of width head_dim on queries and keys
  bool qkv_bias = false;
  bool attention_out_bias = false;
  bool mlp_bias = false;
  bool head_bias = false;
  bool tied_embeddings = false;
  std::int64_t learned_positions = 0;  // rows of the position table (learned positions only)
  double rope_theta = 10000;           // base of the rotary frequencies (rotary positions only)
  bool rope_scaled = false;            // rotary frequencies are stretched for long contexts (rope_scaling)
  double norm_epsilon = 1e-5;          // added to the variance
  std::int64_t embedding_width = 0;    // width of the embedding when projected (opt-350m); 0: hidden
  std::optional<MoeSpec> moe;

  bool operator==(const ModelSpec&) const = default;

  [[nodiscard]] std::int64_t q_width() const { return static_cast<std::int64_t>(heads) * head_dim; }
  [[nodiscard]] std::int64_t kv_width() const { return static_cast<std::int64_t>(kv_heads) * head_dim; }
};

/// Parameters counted from the shapes.
struct ParameterCount {
  std::int64_t token_embedding = 0;  // V h, counted once when tied
  std::int64_t position_embedding = 0;
  std::int64_t attention_per_layer = 0;
  std::int64_t mlp_per_layer = 0;
  std::int64_t norms_per_layer = 0;
  std::int64_t final_norm = 0;
  std::int64_t head = 0;  // 0 when tied
  int layers = 0;

  [[nodiscard]] std::int64_t per_layer() const {
    return attention_per_layer + mlp_per_layer + norms_per_layer;
  }
  [[nodiscard]] std::int64_t embeddings() const { return token_embedding + position_embedding + head; }
  [[nodiscard]] std::int64_t total() const { return layers * per_layer() + embeddings() + final_norm; }
};

/// Exact for dense models: equals what the published checkpoints hold. For mixtures of experts the MLP counts
/// all experts and the router, averaged over the layers.
[[nodiscard]] ParameterCount count_parameters(const ModelSpec& model);

/// Model FLOPs of one token, forward and backward, without what recomputation repeats:
/// 6 x (weights of every matrix product, LM head included, embedding look-up not) + 12 L (a d) s,
/// the attention term halved when `causal`. Of a mixture of experts, the router and the experts that a token
/// visits. PaLM, arXiv 2204.02311, appendix B.
[[nodiscard]] double model_flops_per_token(const ModelSpec& model, int sequence, bool causal = false);

}  // namespace tpplan
