#include "simulator/model/hugging_face.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

#include "simulator/model/model_limits.hpp"

namespace tpplan {
namespace {

using Defaults = std::map<std::string, std::int64_t>;

/// A config.json read under the names that most families use. `defaults` are those of the family's
/// configuration class in transformers. They stand in for absent keys that a class fills by itself
/// (max_position_embeddings), and in a nested text_config for every absent key, because transformers writes
/// only what differs from the class there.
class Config {
 public:
  Config(const Value& value, const Defaults& defaults, bool nested)
      : value_(value), map_(value.map()), defaults_(defaults), nested_(nested) {}

  [[nodiscard]] std::optional<Value> optional(const std::string& key) {
    asked_.push_back(key);
    return map_.optional(key);
  }
  [[nodiscard]] std::int64_t integer(const std::string& key, std::int64_t most) {
    if (const auto found = optional(key)) return found->integer(1, most);
    if (const auto known = defaults_.find(key); nested_ && known != defaults_.end()) return known->second;
    return map_.required(key).integer(1, most);
  }
  [[nodiscard]] std::int64_t integer_or(const std::string& key, std::int64_t most, std::int64_t otherwise) {
    const auto found = optional(key);
    return found ? found->integer(1, most) : otherwise;
  }
  /// The class default where the key is absent, `otherwise` where it is null or the class has none.
  [[nodiscard]] std::int64_t integer_or_default(const std::string& key, std::int64_t most,
                                                std::int64_t otherwise) {
    const auto known = defaults_.find(key);
    return integer_or(key, most, map_.has(key) || known == defaults_.end() ? otherwise : known->second);
  }
  [[nodiscard]] bool flag_or(const std::string& key, bool otherwise) {
    const auto found = optional(key);
    return found ? found->flag() : otherwise;
  }
  /// Whichever of two names of one key the file has.
  [[nodiscard]] std::string either(const std::string& name, const std::string& older) {
    return !map_.has(name) && map_.has(older) ? older : name;
  }
  /// Where to point at for a key, be it given or not.
  [[nodiscard]] Value place_of(const std::string& key) { return map_.optional(key).value_or(value_); }

  /// Refuses a key that is a slip or two away from one that was looked for and is absent: read over, it would
  /// change the shapes in silence. Other unknown keys are left alone.
  void refuse_misspelt() {
    for (const std::string& given : map_.keys()) {
      if (std::find(asked_.begin(), asked_.end(), given) != asked_.end()) continue;
      for (const std::string& key : asked_)
        if (!map_.has(key) && edit_distance(given, key) <= (key.size() < 8 ? 1U : 2U))
          place_of(given).fail(fmt::format("unknown key '{}'; did you mean '{}'?", given, key));
    }
  }

 private:
  Value value_;
  MapReader map_;
  const Defaults& defaults_;
  bool nested_;
  std::vector<std::string> asked_;
};

/// What training needs beyond the shapes: epsilon of the norms, base and scaling of the rotary frequencies.
void read_numerics(Config& config, ModelSpec& m) {
  for (const char* key : {"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps"})
    if (const auto v = config.optional(key)) m.norm_epsilon = v->number(0, 0.1);
  if (const auto v = config.optional("rope_theta")) m.rope_theta = v->number(1, 1e12);
  if (const auto v = config.optional("rope_scaling")) m.rope_scaled = v->is_map();
  if (const auto v = config.optional("rope_parameters"); v && v->is_map()) {  // since transformers 5
    MapReader map = v->map();
    if (const auto theta = map.optional("rope_theta")) m.rope_theta = theta->number(1, 1e12);
    if (const auto type = map.optional("rope_type")) m.rope_scaled = type->text() != "default";
  }
}

ActivationKind activation_of(Config& config, const std::string& key, ActivationKind otherwise) {
  const auto found = config.optional(key);
  if (!found) return otherwise;
  const std::string text = found->text();
  if (text.starts_with("silu") || text.starts_with("swish")) return ActivationKind::silu;
  if (text.starts_with("relu")) return ActivationKind::relu;
  if (text.starts_with("gelu")) return ActivationKind::gelu;
  found->fail(fmt::format("unknown activation '{}'; gelu, relu and silu are known", text));
}

/// Heads, KV heads (`kv_key` empty: as many) and their width.
void read_heads(Config& config, ModelSpec& m, const std::string& heads_key, const std::string& kv_key) {
  m.heads = static_cast<int>(config.integer(heads_key, kMostHeads));
  m.kv_heads = m.heads;
  if (!kv_key.empty()) {
    m.kv_heads = static_cast<int>(config.integer_or_default(kv_key, kMostHeads, m.heads));
    require_kv_heads(config.place_of(kv_key), m);
  }
  m.head_dim = static_cast<int>(config.integer_or_default("head_dim", kWidest, 0));
  if (m.head_dim == 0) set_head_dim(config.place_of(heads_key), m);
}

/// The keys of llama and everything after its pattern: RMSNorm, rotary embedding, gated MLP, grouped queries.
ModelSpec llama_like(Config& config) {
  ModelSpec m;
  m.layers = static_cast<int>(config.integer("num_hidden_layers", kMostLayers));
  m.hidden = config.integer("hidden_size", kWidest);
  read_heads(config, m, "num_attention_heads", "num_key_value_heads");
  m.ffn = config.integer("intermediate_size", kWidest);
  m.vocabulary = config.integer("vocab_size", kWidest);
  m.max_positions = config.integer_or_default("max_position_embeddings", kLongest, 2048);
  m.gated_mlp = true;
  m.activation = activation_of(config, "hidden_act", ActivationKind::silu);
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
  m.qkv_bias = m.attention_out_bias = config.flag_or("attention_bias", false);
  m.activation = activation_of(config, "hidden_activation", ActivationKind::gelu);
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
  moe.experts =
      static_cast<int>(config.integer(config.either("num_experts", "num_local_experts"), kMostExperts));
  moe.top_k = static_cast<int>(config.integer("num_experts_per_tok", moe.experts));
  moe.expert_ffn = static_cast<int>(config.integer("moe_intermediate_size", kWidest));
  m.moe = moe;
  const auto dense = config.optional("mlp_only_layers");
  if (dense && !dense->list().empty()) dense->fail("dense layers among expert layers are not supported");
  if (config.integer_or("decoder_sparse_step", kMostLayers, 1) != 1)
    config.place_of("decoder_sparse_step").fail("only 1, experts in every layer, is supported");
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
  m.max_positions = m.learned_positions = config.integer_or_default("n_positions", kLongest, 1024);
  m.activation = activation_of(config, "activation_function", ActivationKind::gelu);
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
  m.max_positions = config.integer_or_default("max_position_embeddings", kLongest, 2048);
  m.activation = activation_of(config, "hidden_act", ActivationKind::gelu);
  m.position = PositionKind::rotary;
  m.qkv_bias = m.attention_out_bias = config.flag_or("attention_bias", true);
  m.parallel_block = config.flag_or("use_parallel_residual", true);
  m.tied_embeddings = config.flag_or("tie_word_embeddings", false);
  return m;
}

ModelSpec opt(Config& config) {
  ModelSpec m;
  m.norm = NormKind::layer_norm;
  m.qkv_bias = m.attention_out_bias = m.mlp_bias = config.flag_or("enable_bias", true);
  m.layers = static_cast<int>(config.integer("num_hidden_layers", kMostLayers));
  m.hidden = config.integer("hidden_size", kWidest);
  read_heads(config, m, "num_attention_heads", "");
  m.ffn = config.integer("ffn_dim", kWidest);
  m.vocabulary = config.integer("vocab_size", kWidest);
  m.max_positions = config.integer_or_default("max_position_embeddings", kLongest, 2048);
  m.learned_positions = m.max_positions + 2;  // two rows of offset
  m.activation = activation_of(config, "activation_function", ActivationKind::relu);
  m.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  const std::int64_t width = config.integer_or("word_embed_proj_dim", kWidest, m.hidden);
  if (width != m.hidden) m.embedding_width = width;
  m.final_norm =
      config.flag_or("do_layer_norm_before", true) && !config.flag_or("_remove_final_layer_norm", false);
  if (!config.flag_or("layer_norm_elementwise_affine", true))
    config.place_of("layer_norm_elementwise_affine").fail("norms without weights are not supported");
  return m;
}

ModelSpec bloom(Config& config) {
  ModelSpec m;
  gpt_biases(m);
  m.layers = static_cast<int>(config.integer(config.either("n_layer", "num_hidden_layers"), kMostLayers));
  m.hidden = config.integer(config.either("hidden_size", "n_embed"), kWidest);
  read_heads(config, m, config.either("n_head", "num_attention_heads"), "");
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
  m.layers = static_cast<int>(config.integer(config.either("num_hidden_layers", "n_layer"), kMostLayers));
  m.hidden = config.integer("hidden_size", kWidest);
  const bool new_block = config.flag_or("new_decoder_architecture", false);
  read_heads(config, m, config.either("num_attention_heads", "n_head"),
             new_block ? config.either("num_kv_heads", "n_head_kv") : "");
  if (!new_block && config.flag_or("multi_query", true)) m.kv_heads = 1;
  m.ffn = config.integer_or("ffn_hidden_size", kWidest, 4 * m.hidden);
  m.vocabulary = config.integer("vocab_size", kWidest);
  m.max_positions = config.integer_or("max_position_embeddings", kLongest, 2048);
  m.position = config.flag_or("alibi", false) ? PositionKind::alibi : PositionKind::rotary;
  m.parallel_block = config.flag_or("parallel_attn", true);
  m.qkv_bias = m.attention_out_bias = m.mlp_bias = config.flag_or("bias", false);
  // The 40B block has a norm for each branch, the 7B and 11B blocks one for both.
  const auto norms = static_cast<int>(config.integer_or("num_ln_in_parallel_attn", 2, new_block ? 2 : 1));
  m.norms_per_layer = m.parallel_block ? norms : 2;
  m.tied_embeddings = config.flag_or("tie_word_embeddings", true);
  return m;
}

struct Family {
  ModelSpec (*read)(Config&);
  Defaults defaults;  // of the configuration class in transformers 5.24
};

const std::map<std::string, Family>& families() {
  const auto shapes = [](std::int64_t vocabulary, std::int64_t hidden, std::int64_t ffn, std::int64_t layers,
                         std::int64_t heads, std::int64_t positions, const Defaults& more) {
    Defaults all{{"vocab_size", vocabulary},     {"hidden_size", hidden},
                 {"intermediate_size", ffn},     {"num_hidden_layers", layers},
                 {"num_attention_heads", heads}, {"max_position_embeddings", positions}};
    all.insert(more.begin(), more.end());
    return all;
  };
  static const std::map<std::string, Family> table{
      {"bloom", {bloom, {{"vocab_size", 250880}, {"hidden_size", 64}, {"n_layer", 2}, {"n_head", 8}}}},
      {"falcon", {falcon, shapes(65024, 4544, 18176, 32, 71, 2048, {})}},
      {"gemma2",
       {gemma2, shapes(256000, 2304, 9216, 26, 8, 8192, {{"num_key_value_heads", 4}, {"head_dim", 256}})}},
      {"gpt2",
       {gpt2,
        {{"vocab_size", 50257}, {"n_embd", 768}, {"n_layer", 12}, {"n_head", 12}, {"n_positions", 1024}}}},
      {"gpt_neox", {gpt_neox, shapes(50432, 6144, 24576, 44, 64, 2048, {})}},
      {"llama", {llama, shapes(32000, 4096, 11008, 32, 32, 2048, {})}},
      {"mistral", {llama_like, shapes(32000, 4096, 14336, 32, 32, 131072, {{"num_key_value_heads", 8}})}},
      {"mixtral",
       {mixtral, shapes(32000, 4096, 14336, 32, 32, 131072,
                        {{"num_key_value_heads", 8}, {"num_local_experts", 8}, {"num_experts_per_tok", 2}})}},
      {"opt", {opt, shapes(50272, 768, 3072, 12, 12, 2048, {{"ffn_dim", 3072}})}},
      {"phi3", {llama_like, shapes(32064, 3072, 8192, 32, 32, 4096, {})}},
      {"qwen2", {qwen2, shapes(151936, 4096, 22016, 32, 32, 32768, {{"num_key_value_heads", 32}})}},
      {"qwen3",
       {qwen3, shapes(151936, 4096, 22016, 32, 32, 32768, {{"num_key_value_heads", 32}, {"head_dim", 128}})}},
      {"qwen3_moe",
       {qwen3_moe, shapes(151936, 2048, 6144, 24, 32, 32768,
                          {{"num_key_value_heads", 4},
                           {"num_experts", 128},
                           {"num_experts_per_tok", 8},
                           {"moe_intermediate_size", 768}})}}};
  return table;
}

}  // namespace

ModelSpec read_hugging_face(const Value& document, const std::string& name) {
  MapReader outer = document.map();
  const auto nested = outer.optional("text_config");
  const Value& inner = nested ? *nested : document;
  auto type = inner.map().optional("model_type");
  if (!type) type = outer.optional("model_type");
  if (!type) document.fail("key 'model_type' is missing");
  std::string family = type->text();
  // Wrappers of vision and text call the text part "<family>_text".
  if (family.ends_with("_text")) family.resize(family.size() - 5);
  const auto found = families().find(family);
  if (found == families().end()) {
    std::vector<std::string> known;
    for (const auto& entry : families()) known.push_back(entry.first);
    type->fail(fmt::format("model_type '{}' is not supported; known: {}{}", family, fmt::join(known, ", "),
                           did_you_mean(family, known)));
  }
  Config config(inner, found->second.defaults, nested.has_value());
  ModelSpec model = found->second.read(config);
  read_numerics(config, model);
  config.refuse_misspelt();
  if (const auto tied = outer.optional("tie_word_embeddings");
      tied && !config.optional("tie_word_embeddings"))
    model.tied_embeddings = tied->flag();
  model.family = family;
  model.name = name;
  model.sequence = static_cast<int>(std::min<std::int64_t>(4096, model.max_positions));
  return model;
}

}  // namespace tpplan
