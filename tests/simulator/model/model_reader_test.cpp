#include "simulator/model/model_reader.hpp"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tpplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::filesystem::path kData = std::filesystem::path(TPPLAN_SOURCE_DIR) / "tests/simulator/model/data";

struct Published {
  const char* file;
  std::int64_t parameters;
};

class PublishedModels : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedModels, HoldTheParametersOfTheirCheckpoints) {
  const ModelSpec model = read_model(kData / (std::string(GetParam().file) + ".json"));
  EXPECT_EQ(count_parameters(model).total(), GetParam().parameters);
}

// Totals as the checkpoints on the Hugging Face hub state them.
INSTANTIATE_TEST_SUITE_P(
    Hub, PublishedModels,
    ::testing::Values(Published{"llama-3.1-405b", 405'853'388'800}, Published{"qwen3-0.6b", 596'049'920},
                      Published{"qwen3-32b", 32'762'123'264}, Published{"mistral-7b", 7'241'732'096},
                      Published{"qwen2-7b", 7'615'616'512}, Published{"gpt2", 124'439'808},
                      Published{"gpt-neox-20b", 20'554'567'680}, Published{"opt-6.7b", 6'658'473'984},
                      Published{"bloom-176b", 176'247'271'424}, Published{"falcon-7b", 6'921'720'704},
                      Published{"falcon-40b", 41'303'293'952}, Published{"phi3-mini", 3'821'079'552},
                      Published{"gemma2-9b", 9'241'705'984}, Published{"nested-llama", 8'030'261'248},
                      Published{"mixtral-8x7b", 46'702'792'704}),
    [](const auto& published) {
      std::string name = published.param.file;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
      return name;
    });

ModelSpec from_json(const std::string& text) { return model_from(parse_document(text, "config.json"), "m"); }

std::int64_t total_of(const std::string& text) { return count_parameters(from_json(text)).total(); }

TEST(HuggingFace, VariantsOfAFamilyHoldWhatTheirCheckpointsHold) {
  // opt-350m: embeddings of 512 projected to 1024, norms after the branches and so none at the end.
  EXPECT_EQ(total_of(R"({"model_type": "opt", "hidden_size": 1024, "ffn_dim": 4096, "num_hidden_layers": 24,
      "num_attention_heads": 16, "vocab_size": 50272, "word_embed_proj_dim": 512,
      "do_layer_norm_before": false})"),
            331'196'416);
  // falcon-rw-1b: the serial block, full attention, alibi and biases.
  EXPECT_EQ(total_of(R"({"model_type": "falcon", "hidden_size": 2048, "num_hidden_layers": 24,
      "num_attention_heads": 32, "vocab_size": 50304, "multi_query": false, "parallel_attn": false,
      "alibi": true, "bias": true, "new_decoder_architecture": false})"),
            1'311'625'216);
  // mistral-nemo: head_dim 128 where hidden / heads is 160.
  EXPECT_EQ(total_of(R"({"model_type": "mistral", "hidden_size": 5120, "intermediate_size": 14336,
      "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 131072,
      "head_dim": 128})"),
            12'247'782'400);
  // bloom-560m: the older names of hidden size and heads.
  EXPECT_EQ(total_of(R"({"model_type": "bloom", "n_embed": 1024, "n_layer": 24, "num_attention_heads": 16,
      "vocab_size": 250880})"),
            559'214'592);
  // qwen2.5-0.5b: tied embeddings, biases on queries, keys and values only.
  EXPECT_EQ(total_of(R"({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
      "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
      "tie_word_embeddings": true})"),
            494'032'768);
  // qwen3-30b-a3b: 128 experts of 768 in every layer.
  EXPECT_EQ(total_of(R"({"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
      "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
      "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
      "mlp_only_layers": [], "decoder_sparse_step": 1})"),
            30'532'122'624);
}

TEST(HuggingFace, NestedTextConfigStatesOnlyWhatDiffersFromItsClass) {
  // The text part of llava-1.5-7b is llama-2-7b with 64 more rows in embedding and head:
  // 6,738,415,616 + 2 x 64 x 4096.
  const std::string text = R"("text_config": {"model_type": "llama", "vocab_size": 32064,
      "max_position_embeddings": 4096})";
  EXPECT_EQ(total_of(R"({"model_type": "llava", )" + text + "}"), 6'738'415'616 + 2 * 64 * 4096);
  // A wrapper that ties: one table less.
  EXPECT_EQ(total_of(R"({"model_type": "llava", "tie_word_embeddings": true, )" + text + "}"),
            6'738'415'616 + 2 * 64 * 4096 - 32064LL * 4096);
  // mistral's class has 8 KV heads of its own accord, qwen3's has heads of 128.
  EXPECT_EQ(from_json(R"({"text_config": {"model_type": "mistral"}})").kv_heads, 8);
  EXPECT_EQ(from_json(R"({"text_config": {"model_type": "qwen3_text", "hidden_size": 1024,
      "num_attention_heads": 16, "num_key_value_heads": 8}})")
                .head_dim,
            128);
}

TEST(HuggingFace, FalconNormsFollowTheBlock) {
  const auto norms = [](const std::string& keys) {
    return from_json(R"({"model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 100, "num_kv_heads": 2, )" +
                     keys + "}")
        .norms_per_layer;
  };
  EXPECT_EQ(norms(R"("new_decoder_architecture": false)"), 1);                               // 7B
  EXPECT_EQ(norms(R"("new_decoder_architecture": true)"), 2);                                // 40B
  EXPECT_EQ(norms(R"("new_decoder_architecture": true, "num_ln_in_parallel_attn": 1)"), 1);  // 11B
  EXPECT_EQ(norms(R"("parallel_attn": false)"), 2);                                          // rw-1b
}

TEST(ModelReader, HeadDimThatIsNotHiddenOverHeads) {
  const ModelSpec model = read_model(kData / "qwen3-0.6b.json");
  EXPECT_EQ(model.head_dim, 128);  // hidden 1024 / 16 heads would be 64
  EXPECT_EQ(model.q_width(), 2048);
  EXPECT_TRUE(model.tied_embeddings);
}

TEST(ModelReader, SequenceOfAConfigIsAtMost4096) {
  EXPECT_EQ(read_model(kData / "llama-3.1-405b.json").sequence, 4096);
  EXPECT_EQ(read_model(kData / "gpt2.json").sequence, 1024);
}

TEST(ModelReader, ShippedModelsLoadAndKeepTheirNames) {
  int models = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TPPLAN_SOURCE_DIR) / "configs/models")) {
    const ModelSpec model = read_model(entry.path());
    EXPECT_EQ(model.name, entry.path().stem().string());
    EXPECT_GT(model.global_batch, 0);
    ++models;
  }
  EXPECT_GE(models, 22);
}

TEST(ModelReader, CountsOfShippedModels) {
  const auto total = [](const char* name) {
    return count_parameters(read_model(std::filesystem::path(TPPLAN_SOURCE_DIR) / "configs/models" / name))
        .total();
  };
  EXPECT_EQ(total("llama-2-7b.yaml"), 6'738'415'616);
  EXPECT_EQ(total("llama-2-13b.yaml"), 13'015'864'320);
  EXPECT_EQ(total("llama-2-70b.yaml"), 68'976'648'192);
  EXPECT_EQ(total("llama-3-8b.yaml"), 8'030'261'248);
  EXPECT_EQ(total("llama-3-70b.yaml"), 70'553'706'496);
  EXPECT_EQ(total("llama-3-405b.yaml"), 405'853'388'800);
  EXPECT_EQ(total("gpt2-124m.yaml"), 124'439'808);
  // 12 L h^2 alone: 24 x 12 x 8192^2 = 19.3e9, not the 10.3e9 that a guide gives these shapes.
  const ParameterCount guide = count_parameters(
      read_model(std::filesystem::path(TPPLAN_SOURCE_DIR) / "configs/models/guide-h8192-l24.yaml"));
  EXPECT_NEAR(static_cast<double>(guide.per_layer()) * 24, 19.3e9, 0.05e9);
}

TEST(ModelReader, MegatronSizesAreThoseOfTheirTable) {
  // Narayanan et al. 2021, table 1, in billions with one decimal.
  const std::vector<std::pair<const char*, double>> table{
      {"1.7b", 1.7}, {"3.6b", 3.6},   {"7.5b", 7.5},   {"18b", 18.4},   {"39b", 39.1},
      {"76b", 76.1}, {"145b", 145.6}, {"310b", 310.1}, {"530b", 529.6}, {"1t", 1008.0}};
  for (const auto& [size, billions] : table) {
    const auto file = std::filesystem::path(TPPLAN_SOURCE_DIR) / "configs/models" /
                      (std::string("megatron-") + size + ".yaml");
    EXPECT_NEAR(static_cast<double>(count_parameters(read_model(file)).total()) / 1e9, billions, 0.0501)
        << size;
  }
}

TEST(ModelFlops, OfAMixtureAreThoseOfTheExpertsVisited) {
  // Mixtral: 32 layers of q and out 2 h^2, k and v 2 h h / 4, 2 of 8 experts of 3 h f, a router of 8 h; head
  // V h; h = 4096, f = 14336, V = 32000, s = 4096.
  const double h = 4096, f = 14336;
  const double layer = 2 * h * h + 2 * h * h / 4 + 2 * 3 * h * f + 8 * h;
  EXPECT_DOUBLE_EQ(model_flops_per_token(read_model(kData / "mixtral-8x7b.json"), 4096),
                   6 * (32 * layer + 32000 * h) + 12 * 32 * h * 4096);
}

TEST(ModelFlops, FollowThePalmConvention) {
  // GPT-2: 6 x (12 layers x 12 h^2 + V h) + 12 L h s, h = 768, V = 50257, s = 1024.
  const ModelSpec model = read_model(kData / "gpt2.json");
  const double h = 768;
  EXPECT_DOUBLE_EQ(model_flops_per_token(model, 1024),
                   6 * (12 * 12 * h * h + 50257 * h) + 12 * 12 * h * 1024);
  EXPECT_DOUBLE_EQ(model_flops_per_token(model, 1024, true),
                   6 * (12 * 12 * h * h + 50257 * h) + 6 * 12 * h * 1024);
}

TEST(ModelReader, RoundTripsThroughYaml) {
  for (const auto& folder : {std::filesystem::path(TPPLAN_SOURCE_DIR) / "configs/models", kData})
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      ModelSpec model = read_model(entry.path());
      const ModelSpec again = model_from(parse_document(model_to_yaml(model), "again.yaml"), "again");
      // A Hugging Face family becomes the nearer of ours; nothing else changes.
      model.family = model.norm == NormKind::rms_norm ? "llama" : "gpt";
      EXPECT_EQ(again, model) << entry.path();
    }
}

TEST(ModelReader, RoundTripsWhatNoFileOfOursHas) {
  ModelSpec model = read_model(std::filesystem::path(TPPLAN_SOURCE_DIR) / "configs/models/tiny-gpt2.yaml");
  model.name = "a \"name\": with \\ and\nmore # signs \xC3\xA9";
  model.embedding_width = 64;
  model.learned_positions = 130;
  model.head_bias = model.embedding_norm = model.parallel_block = true;
  model.final_norm = false;
  model.norms_per_layer = 1;
  model.moe = MoeSpec{.experts = 8, .top_k = 2, .expert_ffn = 96, .shared_ffn = 32, .first_dense_layers = 1};
  EXPECT_EQ(model_from(parse_document(model_to_yaml(model), "again.yaml"), "again"), model);
}

std::string error_of(const std::string& text, const std::string& name = "m.yaml") {
  try {
    (void)model_from(parse_document(text, name), "m");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

const std::string kGpt =
    "name: m\nfamily: gpt\nlayers: 2\nhidden: 64\nheads: 4\nffn: 256\nvocabulary: 100\nmax_positions: 64\n";

TEST(ModelReader, EachMistakeHasItsPlaceAndRemedy) {
  EXPECT_EQ(error_of(kGpt), "no error");
  EXPECT_THAT(error_of(kGpt + "hiden: 3\n"),
              HasSubstr("m.yaml:9:8: hiden: unknown key 'hiden'; did you mean 'hidden'?"));
  EXPECT_THAT(error_of("name: m\nfamily: gtp\n"),
              HasSubstr("'gtp' must be one of gpt, llama; did you mean 'gpt'?"));
  EXPECT_THAT(error_of(kGpt + "kv_heads: 3\n"), HasSubstr("3 KV heads do not divide 4 heads"));
  EXPECT_THAT(error_of("name: m\nfamily: gpt\nlayers: 1000000000000000000\n"),
              HasSubstr("m.yaml:3:9: layers: "));
  EXPECT_THAT(error_of("name: m\nfamily: gpt\nlayers: -1\n"), HasSubstr("outside 1 .. 100000"));
  EXPECT_THAT(error_of("name: m\nfamily: gpt\nlayers: 2\nhidden: 65\nheads: 4\n"),
              HasSubstr("4 heads do not divide the hidden size 65; give head_dim"));
  EXPECT_THAT(error_of(kGpt + "global_batch: 512\n"),
              HasSubstr("has no unit; write a batch as '4194304 tokens'"));
  EXPECT_THAT(error_of(kGpt + "global_batch: 512 samples\n"), HasSubstr("needs the sequence length"));
  EXPECT_THAT(
      error_of(kGpt + "sequence: 1000000000\nposition: rotary\nglobal_batch: 1099511627776 samples\n"),
      HasSubstr("samples of 1000000000 tokens are out of range"));
  EXPECT_THAT(error_of(kGpt + "sequence: 65\n"),
              HasSubstr("m.yaml:9:11: sequence: 65 tokens are more than the 64 learned positions"));
  EXPECT_THAT(error_of("name: m\nfamily: gpt\nlayers: 2\nhidden: 64\nheads: 4\nffn: 256\nvocabulary: 100\n"),
              HasSubstr("learned positions need max_positions"));
  EXPECT_THAT(error_of(kGpt + "position: rotary\nposition_rows: 3\n"), HasSubstr("only learned positions"));
  EXPECT_THAT(error_of(kGpt + "norms_per_layer: 3\n"), HasSubstr("must be 2 or 4, or 1 in a parallel_block"));
  EXPECT_THAT(error_of(kGpt + "norms_per_layer: 1\n"), HasSubstr("must be 2 or 4, or 1 in a parallel_block"));
  EXPECT_THAT(error_of(kGpt + "moe: {experts: 4, top_k: 2, expert_ffn: 8, first_dense_layers: 3}\n"),
              HasSubstr("moe.first_dense_layers: 3 is outside 0 .. 2"));
  EXPECT_THAT(error_of(kGpt + "moe: {experts: 4, top_k: 5, expert_ffn: 8}\n"),
              HasSubstr("moe.top_k: 5 is outside 1 .. 4"));
  EXPECT_THAT(error_of("name: m\nlayers: 2\n"),
              HasSubstr("'model_type' (of a Hugging Face config.json) is missing"));
  EXPECT_THAT(error_of("name: m\nfamly: gpt\n"),
              HasSubstr("m.yaml:2:8: famly: unknown key 'famly'; did you mean 'family'?"));
  // Each number is in its range, their product is not.
  EXPECT_THAT(error_of("name: m\nfamily: llama\nlayers: 100000\nhidden: 8000000\nheads: 1\nffn: 10000000\n"
                       "vocabulary: 100\n"),
              HasSubstr("more than 10^17 parameters"));
  EXPECT_THAT(error_of("[1, 2]"), HasSubstr("a model must be a map"));
  EXPECT_THAT(error_of(""), HasSubstr("a model must be a map"));
}

TEST(ModelReader, HuggingFaceMistakes) {
  EXPECT_THAT(error_of(R"({"model_type": "deepseek_v3"})", "config.json"),
              AllOf(StartsWith("config.json:1:16: model_type: model_type 'deepseek_v3' is not supported; "
                               "known: bloom, falcon"),
                    HasSubstr("qwen3_moe")));
  EXPECT_THAT(error_of(R"({"model_type": "lama"})"), HasSubstr("did you mean 'llama'?"));
  EXPECT_THAT(error_of(R"({"model_type": "llama", "num_hiden_layers": 2})"),
              HasSubstr("unknown key 'num_hiden_layers'; did you mean 'num_hidden_layers'?"));
  EXPECT_THAT(error_of(R"({"model_type": "llama", "num_hidden_layers": 1e9})"),
              HasSubstr("must be a whole number"));
  EXPECT_THAT(error_of(R"({"model_type": "llama", "num_hidden_layers": NaN})"),
              HasSubstr("must be a whole number"));
  EXPECT_THAT(error_of(R"({"model_type": "llama", "num_hidden_layers": null})"),
              HasSubstr("'num_hidden_layers' is missing"));
  // A misspelt key with a default would change the shapes in silence; other unknown keys are left alone.
  const std::string llama = R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100, "torch_dtype": "bfloat16")";
  EXPECT_EQ(error_of(llama + "}"), "no error");
  EXPECT_EQ(error_of(llama + R"(, "rope_scaling": {"hidden_size": -1}, "_name": "https://a.b/c: {d}"})"),
            "no error");
  EXPECT_THAT(error_of(llama + R"(, "num_key_value_head": 2})"),
              HasSubstr("unknown key 'num_key_value_head'; did you mean 'num_key_value_heads'?"));
  EXPECT_THAT(error_of(llama + R"(, "tie_word_embedding": true})"),
              HasSubstr("did you mean 'tie_word_embeddings'?"));
  EXPECT_THAT(error_of(R"({"text_config": {"model_type": "llama", "hiden_size": 64}})"),
              HasSubstr("text_config.hiden_size: unknown key 'hiden_size'; did you mean 'hidden_size'?"));
  EXPECT_THAT(error_of(llama + R"(, "num_key_value_heads": 3})"),
              HasSubstr("3 KV heads do not divide 4 heads"));
  EXPECT_THAT(error_of(llama + R"(, "head_dim": 0})"), HasSubstr("head_dim: 0 is outside"));
  EXPECT_THAT(error_of(llama + R"(, "hidden_act": "mish"})"), HasSubstr("unknown activation 'mish'"));
  EXPECT_THAT(error_of(llama + R"(, "vocab_size": 7})"), HasSubstr("key 'vocab_size' is given twice"));
  EXPECT_THAT(error_of(R"({"model_type": "llava", "text_config": {"model_type": "gemma3_text"}})"),
              HasSubstr("text_config.model_type: model_type 'gemma3' is not supported; known: bloom"));
  EXPECT_THAT(error_of(R"({"model_type": "llama", "text_config": 3})"),
              HasSubstr("text_config: must be a map"));
  EXPECT_THAT(error_of(R"({"model_type": "qwen3_moe", "text_config": {"mlp_only_layers": [0]}})"),
              HasSubstr("dense layers among expert layers are not supported"));
  EXPECT_THAT(error_of(R"({"model_type": "opt", "text_config": {"layer_norm_elementwise_affine": false}})"),
              HasSubstr("norms without weights are not supported"));
  EXPECT_THAT(error_of("{\n\t\"model_type\": \"llama\",\n\t\"num_hidden_layers\": 2}"),
              HasSubstr("'hidden_size' is missing"));
}

}  // namespace
}  // namespace tpplan
