#include "planner/partition/partition.hpp"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>

namespace tpplan {
namespace {

std::vector<double> loads(const std::vector<Stage>& stages, int pp, EndWeights weights) {
  std::vector<double> work(static_cast<std::size_t>(pp), 0);
  for (std::size_t i = 0; i < stages.size(); ++i)
    work[i % static_cast<std::size_t>(pp)] += stages[i].layers +
                                              (stages[i].embedding ? weights.embedding : 0) +
                                              (stages[i].head ? weights.head : 0);
  return work;
}

/// The least possible load of the busiest rank over all splits with at least `vpp` layers a rank.
double brute_force(int layers, int pp, int vpp, EndWeights weights) {
  double best = 1e9;
  const std::function<void(int, int, double)> place = [&](int rank, int left, double most) {
    const double embedding = rank == 0 ? weights.embedding : 0;
    if (rank == pp - 1) {
      if (left >= vpp) best = std::min(best, std::max(most, left + embedding + weights.head));
      return;
    }
    for (int take = vpp; take <= left; ++take) place(rank + 1, left - take, std::max(most, take + embedding));
  };
  place(0, layers, 0);
  return best;
}

TEST(PartitionLayers, EqualsBruteForceOnEverySmallCase) {
  for (int layers = 2; layers <= 12; ++layers)
    for (int pp = 1; pp <= 4; ++pp)
      for (int vpp = 1; vpp <= 2; ++vpp)
        for (const double embedding : {0.0, 0.3, 2.4})
          for (const double head : {0.0, 0.7, 1.3, 3.9}) {
            if (layers < pp * vpp) continue;
            const EndWeights weights{embedding, head};
            const std::vector<double> work = loads(partition_layers(layers, pp, vpp, weights), pp, weights);
            EXPECT_NEAR(*std::max_element(work.begin(), work.end()), brute_force(layers, pp, vpp, weights),
                        1e-9)
                << layers << " layers, pp " << pp << ", vpp " << vpp << ", ends " << embedding << " " << head;
          }
}

TEST(PartitionLayers, HoldsEveryLayerOnceInOrder) {
  for (const int vpp : {1, 2, 3}) {
    const std::vector<Stage> stages = partition_layers(31, 4, vpp, {0.2, 1.7});
    int next = 0;
    for (const Stage& stage : stages) {
      EXPECT_EQ(stage.first_layer, next);
      EXPECT_GE(stage.layers, 1);
      next += stage.layers;
    }
    EXPECT_EQ(next, 31);
    EXPECT_TRUE(stages.front().embedding);
    EXPECT_TRUE(stages.back().head);
  }
}

TEST(PartitionLayers, AHeavyHeadTakesLayersFromTheLastRank) {
  // A head of two layers on 4 ranks and 30 layers: 8 + 8 + 8 + (6 + 2).
  const std::vector<Stage> stages = partition_layers(30, 4, 1, {0, 2});
  EXPECT_EQ(stages.back().layers, 6);
}

}  // namespace
}  // namespace tpplan
