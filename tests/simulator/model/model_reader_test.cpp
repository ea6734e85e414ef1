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
                      Published{"phi3-mini", 3'821'079'552}, Published{"gemma2-9b", 9'241'705'984},
                      Published{"nested-llama", 8'030'261'248}, Published{"mixtral-8x7b", 46'702'792'704}),
    [](const auto& published) {
      std::string name = published.param.file;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
      return name;
    });

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
  EXPECT_EQ(total("llama-3-70b.yaml"), 70'553'706'496);
  EXPECT_EQ(total("gpt2-124m.yaml"), 124'439'808);
  // 12 L h^2 alone: 24 x 12 x 8192^2 = 19.3e9, not the 10.3e9 that a guide gives these shapes.
  const ParameterCount guide = count_parameters(
      read_model(std::filesystem::path(TPPLAN_SOURCE_DIR) / "configs/models/guide-h8192-l24.yaml"));
  EXPECT_NEAR(static_cast<double>(guide.per_layer()) * 24, 19.3e9, 0.05e9);
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
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TPPLAN_SOURCE_DIR) / "configs/models")) {
    const ModelSpec model = read_model(entry.path());
    const ModelSpec again = model_from(parse_document(model_to_yaml(model), "again.yaml"), "again");
    EXPECT_EQ(count_parameters(again).total(), count_parameters(model).total()) << entry.path();
    EXPECT_EQ(again.global_batch, model.global_batch);
    EXPECT_EQ(again.sequence, model.sequence);
  }
}

std::string error_of(const std::string& text, const std::string& name = "m.yaml") {
  try {
    (void)model_from(parse_document(text, name), "m");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

const std::string kGpt = "name: m\nfamily: gpt\nlayers: 2\nhidden: 64\nheads: 4\nffn: 256\nvocabulary: 100\n";

TEST(ModelReader, EachMistakeHasItsPlaceAndRemedy) {
  EXPECT_EQ(error_of(kGpt), "no error");
  EXPECT_THAT(error_of(kGpt + "hiden: 3\n"),
              HasSubstr("m.yaml:8:8: hiden: unknown key 'hiden'; did you mean 'hidden'?"));
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
  EXPECT_THAT(error_of("{\n\t\"model_type\": \"llama\",\n\t\"num_hidden_layers\": 2}"),
              HasSubstr("'hidden_size' is missing"));
}

}  // namespace
}  // namespace tpplan
