#include "simulator/model/model_reader.hpp"

#include <fmt/format.h>

#include "simulator/model/hugging_face.hpp"
#include "simulator/model/model_limits.hpp"

namespace tpplan {
namespace {

constexpr std::array<std::string_view, 2> kFamilies{"gpt", "llama"};
constexpr std::array<std::string_view, 2> kNormNames{"layer_norm", "rms_norm"};
constexpr std::array<std::string_view, 3> kActivationNames{"gelu", "relu", "silu"};
constexpr std::array<std::string_view, 4> kPositionNames{"none", "learned", "rotary", "alibi"};

/// What a family means unless the file says otherwise.
ModelSpec family_defaults(std::string_view family) {
  ModelSpec m;
  m.family = family;
  if (family == "llama") {
    m.gated_mlp = true;
    m.activation = ActivationKind::silu;
    m.norm = NormKind::rms_norm;
    m.position = PositionKind::rotary;
  } else {
    m.qkv_bias = m.attention_out_bias = m.mlp_bias = true;
    m.tied_embeddings = true;
  }
  return m;
}

/// "4194304 tokens" or "2048 samples" (of the model's sequence), in tokens.
std::int64_t read_batch(const Value& value, int sequence) {
  try {
    return parse_batch(value.text()).tokens(sequence);
  } catch (const std::invalid_argument& error) {
    value.fail(error.what());
  }
}

MoeSpec read_moe(const Value& value, int layers) {
  MapReader map = value.map();
  MoeSpec moe;
  moe.experts = static_cast<int>(map.required("experts").integer(2, kMostExperts));
  moe.top_k = static_cast<int>(map.required("top_k").integer(1, moe.experts));
  moe.expert_ffn = static_cast<int>(map.required("expert_ffn").integer(1, kWidest));
  if (const auto v = map.optional("shared_ffn")) moe.shared_ffn = static_cast<int>(v->integer(0, kWidest));
  if (const auto v = map.optional("first_dense_layers"))
    moe.first_dense_layers = static_cast<int>(v->integer(0, layers));
  map.finish();
  return moe;
}

/// Rows of the position table: one for each position that a sample can have.
void read_learned_positions(MapReader& map, ModelSpec& m) {
  const auto rows = map.optional("position_rows");
  if (m.position != PositionKind::learned) {
    if (rows) rows->fail("only learned positions have a table; leave it out or set position: learned");
    return;
  }
  m.learned_positions = m.max_positions > 0 ? m.max_positions : m.sequence;
  if (rows) m.learned_positions = rows->integer(1, kLongest);
  if (m.learned_positions == 0)
    map.whole().fail("learned positions need max_positions, or the sequence, to size their table");
  if (m.sequence > m.learned_positions)
    map.required("sequence")
        .fail(
            fmt::format("{} tokens are more than the {} learned positions", m.sequence, m.learned_positions));
}

ModelSpec read_own(const Value& document) {
  MapReader map = document.map();
  ModelSpec m = family_defaults(kFamilies[map.required("family").choice(kFamilies)]);
  m.name = map.required("name").text();
  m.layers = static_cast<int>(map.required("layers").integer(1, kMostLayers));
  m.hidden = map.required("hidden").integer(1, kWidest);
  const Value heads = map.required("heads");
  m.heads = static_cast<int>(heads.integer(1, kMostHeads));
  m.kv_heads = m.heads;
  if (const auto v = map.optional("kv_heads")) {
    m.kv_heads = static_cast<int>(v->integer(1, kMostHeads));
    require_kv_heads(*v, m);
  }
  const auto head_dim = map.optional("head_dim");
  if (head_dim)
    m.head_dim = static_cast<int>(head_dim->integer(1, kWidest));
  else
    set_head_dim(heads, m);
  m.ffn = map.required("ffn").integer(1, kWidest);
  m.vocabulary = map.required("vocabulary").integer(1, kWidest);
  if (const auto v = map.optional("sequence")) m.sequence = static_cast<int>(v->integer(1, kLongest));
  if (const auto v = map.optional("max_positions")) m.max_positions = v->integer(1, kLongest);
  if (const auto v = map.optional("global_batch")) m.global_batch = read_batch(*v, m.sequence);
  if (const auto v = map.optional("norm")) m.norm = v->choice<NormKind>(kNormNames);
  if (const auto v = map.optional("activation")) m.activation = v->choice<ActivationKind>(kActivationNames);
  if (const auto v = map.optional("position")) m.position = v->choice<PositionKind>(kPositionNames);
  const auto flag = [&](const char* key, bool& out) {
    if (const auto v = map.optional(key)) out = v->flag();
  };
  flag("gated_mlp", m.gated_mlp);
  flag("tied_embeddings", m.tied_embeddings);
  flag("qkv_bias", m.qkv_bias);
  flag("attention_out_bias", m.attention_out_bias);
  flag("mlp_bias", m.mlp_bias);
  flag("qk_norm", m.qk_norm);
  flag("final_norm", m.final_norm);
  flag("embedding_norm", m.embedding_norm);
  flag("parallel_block", m.parallel_block);
  flag("head_bias", m.head_bias);
  if (const auto v = map.optional("norms_per_layer")) {
    m.norms_per_layer = static_cast<int>(v->integer(1, 4));
    if (m.norms_per_layer == 3 || (m.norms_per_layer == 1 && !m.parallel_block))
      v->fail("must be 2 or 4, or 1 in a parallel_block, where both branches share it");
  }
  if (const auto v = map.optional("rope_theta")) m.rope_theta = v->number(1, 1e12);
  flag("rope_scaled", m.rope_scaled);
  if (const auto v = map.optional("norm_epsilon")) m.norm_epsilon = v->number(0, 0.1);
  if (const auto v = map.optional("embedding_width")) m.embedding_width = v->integer(1, kWidest);
  if (const auto v = map.optional("moe")) m.moe = read_moe(*v, m.layers);
  read_learned_positions(map, m);
  map.finish();
  return m;
}

}  // namespace

ModelSpec model_from(const Value& document, const std::string& name) {
  if (!document.is_map()) document.fail("a model must be a map of keys and values");
  MapReader map = document.map();
  const bool hugging_face = map.has("model_type") || map.has("text_config");
  if (!hugging_face && !map.has("family")) {
    const std::vector<std::string> marks{"family", "model_type"};
    for (const std::string& key : map.keys())
      if (const auto meant = nearest_spelling(key, marks))
        map.required(key).fail(fmt::format("unknown key '{}'; did you mean '{}'?", key, *meant));
    document.fail(
        "key 'family' (of a model of this program) or 'model_type' (of a Hugging Face config.json) is "
        "missing");
  }
  ModelSpec model = hugging_face ? read_hugging_face(document, name) : read_own(document);
  require_possible(document, model);
  return model;
}

ModelSpec read_model(const std::filesystem::path& file) {
  // Every Hugging Face file is called config.json: the folder tells models apart.
  std::string name = file.stem().string();
  if (name == "config" && file.has_parent_path() && file.parent_path().has_filename())
    name = file.parent_path().filename().string();
  return model_from(read_document(file), name);
}

std::string model_to_yaml(const ModelSpec& m) {
  const bool llama = m.family == "llama" || (m.family != "gpt" && m.norm == NormKind::rms_norm);
  std::string text = fmt::format(
      "name: {}\nfamily: {}\nlayers: {}\nhidden: {}\nheads: {}\nkv_heads: {}\nhead_dim: {}\n",
      yaml_string(m.name), llama ? "llama" : "gpt", m.layers, m.hidden, m.heads, m.kv_heads, m.head_dim);
  text += fmt::format("ffn: {}\nvocabulary: {}\n", m.ffn, m.vocabulary);
  if (m.sequence > 0) text += fmt::format("sequence: {}\n", m.sequence);
  if (m.max_positions > 0) text += fmt::format("max_positions: {}\n", m.max_positions);
  if (m.global_batch > 0) text += fmt::format("global_batch: {} tokens\n", m.global_batch);
  text +=
      fmt::format("norm: {}\nactivation: {}\nposition: {}\n", kNormNames[static_cast<std::size_t>(m.norm)],
                  kActivationNames[static_cast<std::size_t>(m.activation)],
                  kPositionNames[static_cast<std::size_t>(m.position)]);
  text += fmt::format(
      "gated_mlp: {}\ntied_embeddings: {}\nqkv_bias: {}\nattention_out_bias: {}\nmlp_bias: {}\nqk_norm: {}\n",
      m.gated_mlp, m.tied_embeddings, m.qkv_bias, m.attention_out_bias, m.mlp_bias, m.qk_norm);
  text += fmt::format(
      "final_norm: {}\nembedding_norm: {}\nparallel_block: {}\nhead_bias: {}\nnorms_per_layer: {}\n",
      m.final_norm, m.embedding_norm, m.parallel_block, m.head_bias, m.norms_per_layer);
  if (m.learned_positions > 0) text += fmt::format("position_rows: {}\n", m.learned_positions);
  if (m.position == PositionKind::rotary)
    text += fmt::format("rope_theta: {}\nrope_scaled: {}\n", m.rope_theta, m.rope_scaled);
  text += fmt::format("norm_epsilon: {}\n", m.norm_epsilon);
  if (m.embedding_width > 0) text += fmt::format("embedding_width: {}\n", m.embedding_width);
  if (m.moe)
    text += fmt::format(
        "moe: {{experts: {}, top_k: {}, expert_ffn: {}, shared_ffn: {}, first_dense_layers: {}}}\n",
        m.moe->experts, m.moe->top_k, m.moe->expert_ffn, m.moe->shared_ffn, m.moe->first_dense_layers);
  return text;
}

}  // namespace tpplan
