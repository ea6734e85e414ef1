#include <gtest/gtest.h>

#include "simulator/cost/analytic_cost_model.hpp"
#include "simulator/cost/plan_costs.hpp"
#include "tests/support/problems.hpp"

namespace tpplan {
namespace {

using testing::plan_of;
using testing::small_problem;

/// One second for each product, attention, streaming kernel and collective: counts them.
class CountingModel final : public CostModel {
 public:
  explicit CountingModel(double product, double attention, double streaming, double collective)
      : CostModel({}),
        product_(product),
        attention_(attention),
        streaming_(streaming),
        collective_(collective) {}
  [[nodiscard]] Seconds product(const ProductShape&) const override { return Seconds{product_}; }
  [[nodiscard]] Seconds attention(const AttentionShape&) const override { return Seconds{attention_}; }
  [[nodiscard]] Seconds streaming(Bytes, double) const override { return Seconds{streaming_}; }
  [[nodiscard]] Seconds collective(Collective, Bytes, const GroupPath& path) const override {
    return Seconds{path.size > 1 ? collective_ : 0};
  }

 private:
  double product_, attention_, streaming_, collective_;
};

Problem problem_with(TpOverlap overlap) {
  Problem problem = small_problem(4, 8, 64);
  problem.runtime.tp_overlap = overlap;
  problem.runtime.cuda_graphs = true;  // no host time
  return problem;
}

TEST(LayerCosts, FourProductsForwardAndEightBackward) {
  const LayerCosts costs = layer_costs(problem_with(TpOverlap::none), CountingModel(1, 0, 0, 0), {});
  EXPECT_NEAR(costs.layer.forward.total().value(), 4, 1e-9);
  EXPECT_NEAR(costs.layer.backward.total().value(), 8, 1e-9);
  EXPECT_NEAR(costs.head.forward.total().value(), 1, 1e-9);
  EXPECT_NEAR(costs.head.backward.total().value(), 2, 1e-9);
}

TEST(LayerCosts, TwoAllReducesEachWayWithTensorParallelism) {
  const CountingModel model(0, 0, 0, 1);
  const LayerCosts costs = layer_costs(problem_with(TpOverlap::none), model, {.tp = 4});
  EXPECT_NEAR(costs.layer.forward.tensor_parallel.value(), 2, 1e-9);
  EXPECT_NEAR(costs.layer.backward.tensor_parallel.value(), 2, 1e-9);
}

TEST(LayerCosts, SequenceParallelismSplitsThemAndGathersAgainForTheBackward) {
  // Forward: gather and scatter twice. Backward: gather and scatter twice, and two gathers of inputs for
  // weight gradients.
  const CountingModel model(0, 0, 0, 1);
  const LayerCosts costs =
      layer_costs(problem_with(TpOverlap::none), model, {.tp = 4, .sequence_parallel = true});
  EXPECT_NEAR(costs.layer.forward.tensor_parallel.value(), 4, 1e-9);
  EXPECT_NEAR(costs.layer.backward.tensor_parallel.value(), 6, 1e-9);
}

TEST(LayerCosts, BytesMovedFollowTheRing) {
  // Message T h x 2 bytes = 2 MiB; all-reduce moves 2 x 3/4 of it per rank. Two forward; four with full
  // recomputation behind.
  const CountingModel model(0, 0, 0, 1);
  const double half = 1024.0 * 1024 * 2 * 3 / 4;
  const LayerCosts plain = layer_costs(problem_with(TpOverlap::none), model, {.tp = 4});
  EXPECT_DOUBLE_EQ(plain.layer.forward.tensor_parallel_bytes.value(), 4 * half);
  EXPECT_DOUBLE_EQ(plain.layer.backward.tensor_parallel_bytes.value(), 4 * half);
  const LayerCosts full =
      layer_costs(problem_with(TpOverlap::none), model, {.tp = 4, .recompute = Recompute::full});
  EXPECT_DOUBLE_EQ(full.layer.backward.tensor_parallel_bytes.value(), 8 * half);
}

TEST(LayerCosts, WeightGradientsHideTheBackwardAllReduces) {
  // Four weight-gradient products of 1 s hide 2 s of all-reduces when they can.
  const LayerCosts costs = layer_costs(problem_with(TpOverlap::wgrad), CountingModel(1, 0, 0, 1), {.tp = 4});
  EXPECT_NEAR(costs.layer.backward.tensor_parallel.value(), 0, 1e-9);
  EXPECT_NEAR(costs.layer.forward.tensor_parallel.value(), 2, 1e-9);
}

TEST(LayerCosts, FullRecomputeRepeatsTheForwardWithItsCommunication) {
  const CountingModel model(1, 3, 0, 2);
  const LayerKey plain{.tp = 4}, full{.tp = 4, .recompute = Recompute::full};
  const Problem problem = problem_with(TpOverlap::none);
  const LayerCosts without = layer_costs(problem, model, plain), with = layer_costs(problem, model, full);
  EXPECT_NEAR((with.layer.backward.total() - without.layer.backward.total()).value(),
              without.layer.forward.total().value(), 1e-9);
}

TEST(LayerCosts, SelectiveRecomputeRepeatsAttentionAndNoCommunication) {
  const CountingModel model(1, 3, 0, 2);
  const Problem problem = problem_with(TpOverlap::none);
  const LayerCosts costs = layer_costs(problem, model, {.tp = 4, .recompute = Recompute::selective});
  EXPECT_NEAR(costs.layer.backward.recompute.value(), 3, 1e-9);
}

TEST(LayerCosts, HostFloorsASmallLayer) {
  // 40 launches of 6 us forward when the device needs nothing.
  Problem problem = problem_with(TpOverlap::none);
  problem.runtime.cuda_graphs = false;
  problem.runtime.kernels_per_layer = 40;
  problem.runtime.launch = microseconds(6);
  const LayerCosts costs = layer_costs(problem, CountingModel(0, 0, 0, 0), {});
  EXPECT_NEAR(costs.layer.forward.total().value(), 240e-6, 1e-9);
}

TEST(LayerCosts, IdealPartIsModelFlopsOverThePeak) {
  // Products: 4 matrices of 12 h^2 parameters, 2 FLOPs per token and parameter; causal attention: 2 s a d per
  // token.
  const Problem problem = problem_with(TpOverlap::none);
  const LayerCosts costs = layer_costs(problem, AnalyticCostModel(problem.topology.device), {});
  const double flops = 1024.0 * (2 * 12 * 1024.0 * 1024 + 2 * 1024.0 * 1024);
  EXPECT_NEAR(costs.layer.forward.ideal.value(), flops / 400e12, 1e-12);
}

TEST(PlanCosts, StagesSumToTheModel) {
  const Problem problem = small_problem(6, 8, 64);
  const AnalyticCostModel model(problem.topology.device);
  const LayerCosts blocks = layer_costs(problem, model, {.tp = 2});
  const ParallelPlan plan = plan_of(problem, 2, 4, 1);
  const PlanCosts costs = plan_costs(problem, model, plan, blocks, plan_paths(problem.topology, plan));
  double forward = 0, parameters = 0;
  for (std::size_t i = 0; i < costs.stages.size(); ++i) {
    forward += costs.stages[i].forward.total().value();
    parameters += costs.parameters[i];
  }
  const double expected = (blocks.layer.forward * 6).total().value() +
                          blocks.embedding.forward.total().value() + blocks.head.forward.total().value();
  EXPECT_NEAR(forward, expected, 1e-12);
  EXPECT_NEAR(parameters, 6 * blocks.parameters.layer + blocks.parameters.embedding + blocks.parameters.head,
              1e-3);
}

TEST(PlanCosts, TensorRanksHoldTheModelBetweenThem) {
  // Untied, no replicated KV heads, padded vocabulary equal to the vocabulary: norms (and positions) are on
  // every rank.
  const ModelSpec model = testing::small_gpt(1);
  const BlockParameters one = block_parameters(model, 1), four = block_parameters(model, 4);
  const double norms = static_cast<double>(count_parameters(model).norms_per_layer);
  EXPECT_NEAR(4 * (four.layer - norms), one.layer - norms, 1e-6);
  EXPECT_NEAR(one.layer, static_cast<double>(count_parameters(model).per_layer()), 1e-6);
}

TEST(PlanCosts, ShardedOptimizerReducesHalfAndGathersTheOtherHalf) {
  // reduce-scatter + all-gather of the same element size move what one all-reduce moves.
  Problem problem = small_problem(4, 8, 64);
  problem.runtime.reduce_bytes = 2;
  const AnalyticCostModel model(problem.topology.device, CollectiveAlgorithm::ring);
  const LayerCosts blocks = layer_costs(problem, model, {});
  ParallelPlan plan = plan_of(problem, 1, 1, 8);
  plan.bucket = Bytes{1e12};
  const PlanPaths paths = plan_paths(problem.topology, plan);
  const RankCosts whole = plan_costs(problem, model, plan, blocks, paths).ranks.front();
  plan.zero = ZeroStage::optimizer;
  const RankCosts sharded = plan_costs(problem, model, plan, blocks, paths).ranks.front();
  const Seconds base = model.constants().collective_base;
  EXPECT_NEAR((sharded.reduce + sharded.gather - base).value(), whole.reduce.value(), 1e-9);
  EXPECT_EQ(whole.gather, Seconds{0});
}

}  // namespace
}  // namespace tpplan
