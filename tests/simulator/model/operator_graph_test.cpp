#include "simulator/model/operator_graph.hpp"

#include <algorithm>
#include <gtest/gtest.h>

#include "simulator/model/model_reader.hpp"

namespace tpplan {
namespace {

ModelSpec shipped(const char* name) {
  return read_model(std::filesystem::path(TPPLAN_SOURCE_DIR) / "configs/models" / name);
}

TEST(OperatorGraph, HoldsEveryParameterOfTheModel) {
  for (const char* folder : {"configs/models", "tests/simulator/model/data"})
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(TPPLAN_SOURCE_DIR) / folder)) {
      const ModelSpec model = read_model(entry.path());
      const OperatorGraph graph = operator_graph(model);
      std::int64_t parameters = 0;
      for (const auto vertex : boost::make_iterator_range(boost::vertices(graph)))
        parameters += graph[vertex].parameters * graph[vertex].repeats;
      EXPECT_EQ(parameters, count_parameters(model).total()) << model.name;
    }
}

TEST(OperatorGraph, VerticesAreInTopologicalOrderAndTensorsFit) {
  const OperatorGraph graph = operator_graph(shipped("llama-3-8b.yaml"));
  for (const auto edge : boost::make_iterator_range(boost::edges(graph))) {
    EXPECT_LT(boost::source(edge, graph), boost::target(edge, graph));
    EXPECT_EQ(graph[edge].features, graph[boost::source(edge, graph)].out);
  }
}

TEST(OperatorGraph, EveryColumnProductIsClosedByARowProduct) {
  // Megatron's pattern: between a column and its row product nothing is replicated, so one all-reduce closes
  // the pair.
  int open = 0, pairs = 0;
  const OperatorGraph graph = operator_graph(shipped("llama-3-8b.yaml"));
  for (const auto vertex : boost::make_iterator_range(boost::vertices(graph))) {
    const Operator& op = graph[vertex];
    if (op.kind == OperatorKind::product && op.split == Split::column) ++open;
    if (op.split == Split::row) --open, ++pairs;
    if (open > 0) {
      EXPECT_NE(op.split, Split::replicate) << op.name;
    }
  }
  EXPECT_EQ(open, 0);
  EXPECT_EQ(pairs, 2);
}

TEST(OperatorTable, ForwardFlopsAreAThirdOfAStep) {
  // Forward is 2 of the 6 FLOPs per weight and 4 of the 12 L (a d) s of attention.
  const auto data = std::filesystem::path(TPPLAN_SOURCE_DIR) / "tests/simulator/model/data/mixtral-8x7b.json";
  for (const ModelSpec& model : {shipped("gpt10b.yaml"), read_model(data)}) {
    double flops = 0;
    for (const OperatorRow& row : operator_table(model, 1, false, 1, 2048))
      flops += row.forward_flops * row.repeats;
    // The order of the sum rounds its last digits.
    EXPECT_NEAR(flops, model_flops_per_token(model, 2048) * 2048 / 3, flops * 1e-12) << model.name;
  }
}

/// Bytes that one layer keeps of one sample.
double layer_bytes(const ModelSpec& model, int tp, bool sequence_parallel, int sequence, KeptTensors kept) {
  double bytes = 0;
  for (const OperatorRow& row : operator_table(model, tp, sequence_parallel, 1, sequence, kept))
    if (row.repeats == model.layers) bytes += row.activation_bytes;
  return bytes;
}

TEST(OperatorTable, FusedAttentionWithoutDropoutKeepsThirtyTwoBytesATokenAndUnit) {
  // 34 s b h of arXiv 2205.05198 less the two masks, and 4 bytes of log-sum-exp a head.
  EXPECT_DOUBLE_EQ(layer_bytes(shipped("gpt3-175b.yaml"), 1, false, 2048, {}),
                   2048.0 * (32 * 12288 + 4 * 96));
}

TEST(OperatorTable, NaiveAttentionWithDropoutIsEquationsOneToFourOfKorthikanti) {
  // arXiv 2205.05198: s b h (34 + 5 a s / h) alone, s b h (10 + 24 / t + 5 a s / (h t)) with tensor
  // parallelism, s b h / t (34 + 5 a s / h) with sequence parallelism; s = 2048, a = 96, h = 12288, t = 8.
  const ModelSpec model = shipped("gpt3-175b.yaml");
  const KeptTensors kept{.naive_attention = true, .dropout = true};
  const double s = 2048, a = 96, h = 12288;
  EXPECT_DOUBLE_EQ(layer_bytes(model, 1, false, 2048, kept), s * h * (34 + 5 * a * s / h));
  EXPECT_DOUBLE_EQ(layer_bytes(model, 8, false, 2048, kept), s * h * (10 + 24.0 / 8 + 5 * a * s / (h * 8)));
  EXPECT_DOUBLE_EQ(layer_bytes(model, 8, true, 2048, kept), s * h / 8 * (34 + 5 * a * s / h));
  // Without dropout: no masks (2 s b h and a s^2 b), and the probabilities once (2 a s^2 b less).
  EXPECT_DOUBLE_EQ(layer_bytes(model, 1, false, 2048, {.naive_attention = true}),
                   s * h * (32 + 2 * a * s / h));
}

TEST(OperatorTable, RanksHoldTheModelAndTheirCopies) {
  // GPT, t = 4: what every rank has whole, three times more than the model: in a layer two norms (4 h) and
  // the biases of two row products (2 h); the final norm (2 h) and the s = 128 positions. h = 128, 4 layers.
  const ModelSpec model = shipped("tiny-gpt2.yaml");
  double parameters = 0;
  for (const OperatorRow& row : operator_table(model, 4, false, 1, 128))
    parameters += 4 * row.parameters * row.repeats;
  const double copied = 4 * (4 + 2) * 128 + 2 * 128 + 128 * 128;
  EXPECT_DOUBLE_EQ(parameters, static_cast<double>(count_parameters(model).total()) + 3 * copied);
}

TEST(OperatorTable, RanksThatShareAKvHeadRepeatIt) {
  // 4 heads of 32 and 2 KV heads, t = 4: a rank has one query head and one KV head of each kind, 3 x 32 rows.
  const ModelSpec model = shipped("tiny-llama.yaml");
  for (const OperatorRow& row : operator_table(model, 4, false, 1, 128))
    if (row.name == "attention.qkv_proj") {
      EXPECT_DOUBLE_EQ(row.parameters, 128 * 3 * 32);
      EXPECT_DOUBLE_EQ(row.forward_flops, 2.0 * 128 * 128 * 3 * 32);
    }
}

TEST(OperatorTable, SplitProductsCommunicateActivations) {
  // Without sequence parallelism each layer has four all-reduces of (T, h) in 16 bit: two in the forward
  // (after the row products), two in the backward (before the column products). Shoeybi et al., arXiv
  // 1909.08053.
  const ModelSpec model = shipped("tiny-gpt2.yaml");
  int reduces = 0;
  for (const OperatorRow& row : operator_table(model, 2, false, 1, 128))
    if (row.repeats == model.layers && !row.communication.empty()) {
      EXPECT_NE(row.communication.find("all-reduce"), std::string::npos) << row.name;
      EXPECT_DOUBLE_EQ(row.communication_bytes, 128.0 * 128 * 2);
      ++reduces;
    }
  EXPECT_EQ(reduces, 4);
  for (const OperatorRow& row : operator_table(model, 1, false, 1, 128)) EXPECT_EQ(row.communication, "");
}

std::size_t readers_of(const OperatorGraph& graph, const std::string& name) {
  for (const auto vertex : boost::make_iterator_range(boost::vertices(graph)))
    if (graph[vertex].name == name) return boost::out_degree(vertex, graph);
  return 0;
}

TEST(OperatorGraph, BranchesOfAParallelBlockReadItsInput) {
  // falcon-7b: one norm, read by the query and the up projection. gpt-neox: the block's input is read by two
  // norms and the residual. A serial layer's norm has one reader.
  const auto data = [](const char* name) {
    return read_model(std::filesystem::path(TPPLAN_SOURCE_DIR) / "tests/simulator/model/data" / name);
  };
  EXPECT_EQ(readers_of(operator_graph(data("falcon-7b.json")), "attention.norm"), 2U);
  EXPECT_EQ(readers_of(operator_graph(data("gpt-neox-20b.json")), "embedding"), 3U);
  EXPECT_EQ(readers_of(operator_graph(data("llama-3.1-405b.json")), "attention.norm"), 1U);
  // A parallel block with one norm keeps the norm's input and output once: 4 h less than the serial layer.
  ModelSpec model = shipped("tiny-gpt2.yaml");
  const double serial = layer_bytes(model, 1, false, 128, {});
  model.parallel_block = true;
  model.norms_per_layer = 1;
  EXPECT_DOUBLE_EQ(layer_bytes(model, 1, false, 128, {}), serial - 128.0 * 4 * 128);
}

}  // namespace
}  // namespace tpplan
