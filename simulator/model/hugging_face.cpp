#include "simulator/model/hugging_face.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

#include "simulator/model/model_limits.hpp"

namespace tpplan {
namespace {

/// Shapes under the names that most families use.
class Config {
 public:
  explicit Config(const Value& value) : value_(value), map_(value.map()) {}

  [[nodiscard]] Value required(const std::string& key) { return map_.required(key); }
  [[nodiscard]] std::optional<Value> optional(const std::string& key) { return map_.optional(key); }
  [[nodiscard]] std::int64_t integer(const std::string& key, std::int64_t most) {
    return required(key).integer(1, most);
  }
  [[nodiscard]] std::int64_t integer_or(const std::string& key, std::int64_t most, std::int64_t otherwise) {
    const auto found = optional(key);
    return found ? found->integer(1, most) : otherwise;
  }
  [[nodiscard]] bool flag_or(const std::string& key, bool otherwise) {
    const auto found = optional(key);
    return found ? found->flag() : otherwise;
  }
  [[nodiscard]] const Value& value() const { return value_; }

 private:
  Value value_;
  MapReader map_;
};

ActivationKind activation_of(Config& config, const std::string& key) {
  const auto found = config.optional(key);
  if (!found) return ActivationKind::gelu;
  const std::string text = found->text();
  if (text.starts_with("silu") || text.starts_with("swish")) return ActivationKind::silu;
  if (text.starts_with("relu")) return ActivationKind::relu;
  if (text.starts_with("gelu")) return ActivationKind::gelu;
  found->fail(fmt::format("unknown activation '{}'; gelu, relu and silu are known", text));
}

void read_heads(Config& config, ModelSpec& m, const std::string& heads_key, const std::string& kv_key) {
  const Value heads = config.required(heads_key);
  m.heads = static_cast<int>(heads.integer(1, kMostHeads));
  m.kv_heads = m.heads;
  if (const auto kv = kv_key.empty() ? std::nullopt : config.optional(kv_key)) {
    m.kv_heads = static_cast<int>(kv->integer(1, kMostHeads));
    require_kv_heads(*kv, m);
  }
  if (const auto head_dim = config.optional("head_dim"))
    m.head_dim = static_cast<int>(head_dim->integer(1, kWidest));
  else
    set_head_dim(heads, m);
}

/// The keys of llama and everything after its pattern: RMSNorm, rotary embedding, gated MLP, grouped queries.
ModelSpec llama_like(Config& config) {
  ModelSpec m;
  m.layers = static_cast<int>(config.integer("num_hidden_layers", kMostLayers));
  m.hidden = config.integer("hidden_size", kWidest);
  read_heads(config, m, "num_attention_heads", "num_key_value_heads");
  m.ffn = config.integer("intermediate_size", kWidest);
  m.vocabulary = config.integer("vocab_size", kWidest);
  m.max_positions = config.integer_or("max_position_embeddings", kLongest, 2048);
  m.gated_mlp = true;
  m.activation = activation_of(config, "hidden_act");
  m.norm = NormKind::rms_norm;
  m.position = PositionKind::rotary;
  m.tied_embeddings = config.flag_or("tie_word_embeddings", false);
  return m;
}

ModelSpec llama(Config& config) {
  ModelSpec m = llama_like(config);
  m.qkv_bias = m.attention_out_bias = config.flag_or("attention_bias", false);
  m.mlp_bias = config.flag_or("mlp_bias", false);
  return m;
}

ModelSpec qwen2(Config& config) {
  ModelSpec m = llama_like(config);
  m.qkv_bias = true;
  return m;
}

ModelSpec qwen3(Config& config) {
  ModelSpec m = llama_like(config);
  m.qkv_bias = m.attention_out_bias = config.flag_or("attention_bias", false);
  m.qk_norm = true;
  return m;
}

ModelSpec gemma2(Config& config) {
  ModelSpec m = llama_like(config);
  m.activation = ActivationKind::gelu;
  m.norms_per_layer = 4;
  m.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  return m;
}

ModelSpec mixtral(Config& config) {
  ModelSpec m = llama_like(config);
  MoeSpec moe;
  moe.experts = static_cast<int>(config.integer("num_local_experts", kMostExperts));
  moe.top_k = static_cast<int>(config.integer("num_experts_per_tok", moe.experts));
  moe.expert_ffn = static_cast<int>(m.ffn);
  m.moe = moe;
  return m;
}

ModelSpec qwen3_moe(Config& config) {
  ModelSpec m = qwen3(config);
  MoeSpec moe;
  moe.experts = static_cast<int>(config.integer("num_experts", kMostExperts));
  moe.top_k = static_cast<int>(config.integer("num_experts_per_tok", moe.experts));
  moe.expert_ffn = static_cast<int>(config.integer("moe_intermediate_size", kWidest));
  m.moe = moe;
  return m;
}

/// Biases everywhere, LayerNorm, plain MLP: what the GPT families share.
void gpt_biases(ModelSpec& m) {
  m.qkv_bias = m.attention_out_bias = m.mlp_bias = true;
  m.norm = NormKind::layer_norm;
}

ModelSpec gpt2(Config& config) {
  ModelSpec m;
  gpt_biases(m);
  m.layers = static_cast<int>(config.integer("n_layer", kMostLayers));
  m.hidden = config.integer("n_embd", kWidest);
  read_heads(config, m, "n_head", "");
  m.ffn = config.integer_or("n_inner", kWidest, 4 * m.hidden);
  m.vocabulary = config.integer("vocab_size", kWidest);
  m.max_positions = m.learned_positions = config.integer_or("n_positions", kLongest, 1024);
  m.activation = activation_of(config, "activation_function");
  m.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  return m;
}

ModelSpec gpt_neox(Config& config) {
  ModelSpec m;
  gpt_biases(m);
  m.layers = static_cast<int>(config.integer("num_hidden_layers", kMostLayers));
  m.hidden = config.integer("hidden_size", kWidest);
  read_heads(config, m, "num_attention_heads", "");
  m.ffn = config.integer("intermediate_size", kWidest);
  m.vocabulary = config.integer("vocab_size", kWidest);
  m.max_positions = config.integer_or("max_position_embeddings", kLongest, 2048);
  m.activation = activation_of(config, "hidden_act");
  m.position = PositionKind::rotary;
  m.parallel_block = config.flag_or("use_parallel_residual", true);
  m.tied_embeddings = config.flag_or("tie_word_embeddings", false);
  return m;
}

ModelSpec opt(Config& config) {
  ModelSpec m;
  gpt_biases(m);
  m.layers = static_cast<int>(config.integer("num_hidden_layers", kMostLayers));
  m.hidden = config.integer("hidden_size", kWidest);
  read_heads(config, m, "num_attention_heads", "");
  m.ffn = config.integer("ffn_dim", kWidest);
  m.vocabulary = config.integer("vocab_size", kWidest);
  m.max_positions = config.integer_or("max_position_embeddings", kLongest, 2048);
  m.learned_positions = m.max_positions + 2;  // two rows of offset
  m.activation = activation_of(config, "activation_function");
  m.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  const std::int64_t width = config.integer_or("word_embed_proj_dim", kWidest, m.hidden);
  if (width != m.hidden) m.embedding_width = width;
  m.final_norm = config.flag_or("do_layer_norm_before", true);
  return m;
}

ModelSpec bloom(Config& config) {
  ModelSpec m;
  gpt_biases(m);
  m.layers = static_cast<int>(
      config.integer(config.optional("n_layer") ? "n_layer" : "num_hidden_layers", kMostLayers));
  m.hidden = config.integer(config.optional("hidden_size") ? "hidden_size" : "n_embed", kWidest);
  read_heads(config, m, config.optional("n_head") ? "n_head" : "num_attention_heads", "");
  m.ffn = 4 * m.hidden;
  m.vocabulary = config.integer("vocab_size", kWidest);
  m.max_positions = config.integer_or("seq_length", kLongest, 2048);
  m.position = PositionKind::alibi;
  m.embedding_norm = true;
  m.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  return m;
}

ModelSpec falcon(Config& config) {
  ModelSpec m;
  m.layers = static_cast<int>(
      config.integer(config.optional("num_hidden_layers") ? "num_hidden_layers" : "n_layer", kMostLayers));
  m.hidden = config.integer("hidden_size", kWidest);
  const bool new_block = config.flag_or("new_decoder_architecture", false);
  const std::string heads = config.optional("num_attention_heads") ? "num_attention_heads" : "n_head";
  const bool grouped = new_block;
  read_heads(config, m, heads,
             grouped ? (config.optional("num_kv_heads") ? "num_kv_heads" : "n_head_kv") : "");
  if (!new_block && config.flag_or("multi_query", true)) m.kv_heads = 1;
  m.ffn = config.integer_or("ffn_hidden_size", kWidest, 4 * m.hidden);
  m.vocabulary = config.integer("vocab_size", kWidest);
  m.max_positions = config.integer_or("max_position_embeddings", kLongest, 2048);
  m.position = config.flag_or("alibi", false) ? PositionKind::alibi : PositionKind::rotary;
  m.parallel_block = config.flag_or("parallel_attn", true);
  m.qkv_bias = m.attention_out_bias = m.mlp_bias = config.flag_or("bias", false);
  // The 40B block has a norm for each branch, the 7B block one for both.
  m.norms_per_layer = new_block ? static_cast<int>(config.integer_or("num_ln_in_parallel_attn", 2, 2))
                                : (m.parallel_block ? 1 : 2);
  m.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  return m;
}

using Reader = ModelSpec (*)(Config&);

const std::map<std::string, Reader>& readers() {
  static const std::map<std::string, Reader> table{
      {"bloom", bloom},        {"falcon", falcon},     {"gemma2", gemma2},
      {"gpt2", gpt2},          {"gpt_neox", gpt_neox}, {"llama", llama},
      {"mistral", llama_like}, {"mixtral", mixtral},   {"opt", opt},
      {"phi3", llama_like},    {"qwen2", qwen2},       {"qwen3", qwen3},
      {"qwen3_moe", qwen3_moe}};
  return table;
}

}  // namespace

ModelSpec read_hugging_face(const Value& document, const std::string& name) {
  Config outer(document);
  const auto nested = outer.optional("text_config");
  Config config(nested ? *nested : document);
  const auto type =
      config.optional("model_type") ? config.optional("model_type") : outer.optional("model_type");
  if (!type) document.fail("key 'model_type' is missing");
  std::string family = type->text();
  // Wrappers of vision and text call the text part "<family>_text".
  if (family.ends_with("_text")) family.resize(family.size() - 5);
  const auto reader = readers().find(family);
  if (reader == readers().end()) {
    std::vector<std::string> known;
    for (const auto& entry : readers()) known.push_back(entry.first);
    type->fail(fmt::format("model_type '{}' is not supported; known: {}{}", family, fmt::join(known, ", "),
                           did_you_mean(family, known)));
  }
  ModelSpec model = reader->second(config);
  model.family = family;
  model.name = name;
  model.sequence = static_cast<int>(std::min<std::int64_t>(4096, model.max_positions));
  return model;
}

}  // namespace tpplan
