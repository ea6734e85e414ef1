#include "simulator/model/operator_graph.hpp"

#include <gtest/gtest.h>

#include "simulator/model/model_reader.hpp"

namespace tpplan {
namespace {

ModelSpec shipped(const char* name) {
  return read_model(std::filesystem::path(TPPLAN_SOURCE_DIR) / "configs/models" / name);
}

TEST(OperatorGraph, HoldsEveryParameterOfTheModel) {
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TPPLAN_SOURCE_DIR) / "configs/models")) {
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
  const ModelSpec model = shipped("gpt10b.yaml");
  double flops = 0;
  for (const OperatorRow& row : operator_table(model, 1, false, 1, 2048))
    flops += row.forward_flops * row.repeats;
  EXPECT_NEAR(flops, model_flops_per_token(model, 2048) * 2048 / 3, flops * 1e-12);
}

TEST(OperatorTable, LayerKeepsThirtyTwoBytesATokenAndUnit) {
  // GPT with fused attention and no dropout: 34 sbh of arXiv 2205.05198 less the two masks, and 4 bytes of
  // log-sum-exp a head.
  const ModelSpec model = shipped("gpt3-175b.yaml");
  double bytes = 0;
  for (const OperatorRow& row : operator_table(model, 1, false, 1, 2048))
    if (row.repeats == model.layers) bytes += row.activation_bytes;
  EXPECT_DOUBLE_EQ(bytes, 2048.0 * (32 * 12288 + 4 * 96));
}

}  // namespace
}  // namespace tpplan
