#include "simulator/cost/collectives.hpp"

#include <gtest/gtest.h>

namespace tpplan {
namespace {

GroupPath inside_node(int size) {
  GroupPath path;
  path.size = path.local = size;
  path.local_bandwidth = gigabytes_per_second(100);
  path.local_latency = microseconds(5);
  path.network_bandwidth = gigabytes_per_second(20);
  path.network_latency = microseconds(10);
  return path;
}

GroupPath across_nodes(int nodes, int local) {
  GroupPath path = inside_node(nodes * local);
  path.local = local;
  path.nodes = nodes;
  return path;
}

KernelConstants no_base() {
  KernelConstants constants;
  constants.collective_base = Seconds{0};
  return constants;
}

TEST(RingAllReduce,
     FourRanksMoveOneAndAHalfMessages) {  // 2(4-1)/4 = 1.5; 1 GB at 100 GB/s = 15 ms + 6 x 5 us
  EXPECT_NEAR(ring_time(Collective::all_reduce, Bytes{1e9}, inside_node(4)).value(), 15e-3 + 30e-6, 1e-12);
}

TEST(RingReduceScatter, IsHalfAnAllReduce) {  // busbw factors of nccl-tests: (n-1)/n against 2(n-1)/n
  const GroupPath path = inside_node(8);
  const Seconds whole = ring_time(Collective::all_reduce, Bytes{1e9}, path);
  EXPECT_NEAR(ring_time(Collective::reduce_scatter, Bytes{1e9}, path).value(), whole.value() / 2, 1e-12);
  EXPECT_NEAR(ring_time(Collective::all_gather, Bytes{1e9}, path).value(), whole.value() / 2, 1e-12);
}

TEST(RingAcrossNodes, RunsAtTheSlowerLinkAndPaysTheNetworkOncePerNode) {
  // 16 ranks on 2 nodes: 15 steps; 2 of 16 hops cross, so a step costs (2 x 10 + 14 x 5) / 16 = 5.625 us on
  // average.
  const Seconds t = ring_time(Collective::all_gather, Bytes{1.6e9}, across_nodes(2, 8));
  EXPECT_NEAR(t.value(), 1.5e9 / 20e9 + 15 * 5.625e-6, 1e-12);
}

TEST(TreeAllReduce, LatencyIsLogarithmicInNodes) {
  // Two latency-bound sums: 64 nodes of one rank. Ring: 126 steps of 10 us. Tree: 2 x log2(64) = 12 steps.
  const GroupPath path = across_nodes(64, 1);
  EXPECT_NEAR(ring_time(Collective::all_reduce, Bytes{0}, path).value(), 1260e-6, 1e-12);
  EXPECT_NEAR(tree_time(Bytes{0}, path, no_base()).value(), 120e-6, 1e-12);
}

TEST(Automatic, TakesTheTreeForSmallMessagesAndTheRingForLargeOnes) {
  const GroupPath path = across_nodes(64, 1);
  const KernelConstants c = no_base();
  const auto automatic = [&](double bytes) {
    return collective_time(Collective::all_reduce, Bytes{bytes}, path, CollectiveAlgorithm::automatic, false,
                           c);
  };
  EXPECT_EQ(automatic(1e3), tree_time(Bytes{1e3}, path, c));
  EXPECT_EQ(automatic(10e9), ring_time(Collective::all_reduce, Bytes{10e9}, path));
}

TEST(Forced, AlgorithmIsObeyed) {
  const GroupPath path = across_nodes(4, 8);
  const KernelConstants c = no_base();
  const auto forced = [&](CollectiveAlgorithm a) {
    return collective_time(Collective::all_reduce, Bytes{1e6}, path, a, true, c);
  };
  EXPECT_EQ(forced(CollectiveAlgorithm::ring), ring_time(Collective::all_reduce, Bytes{1e6}, path));
  EXPECT_EQ(forced(CollectiveAlgorithm::tree), tree_time(Bytes{1e6}, path, c));
  EXPECT_EQ(forced(CollectiveAlgorithm::hierarchical),
            hierarchical_time(Collective::all_reduce, Bytes{1e6}, path));
}

TEST(Hierarchical, AddsTheTwoLevels) {
  // 2 nodes x 4 ranks, 800 MB all-gather: inside 3/4 x 0.8 GB / 100 GB/s = 6 ms + 3 x 5 us; between each rank
  // moves 1/2 of its 200 MB over a quarter of the node's 20 GB/s: 20 ms + 10 us.
  const Seconds t = hierarchical_time(Collective::all_gather, Bytes{800e6}, across_nodes(2, 4));
  EXPECT_NEAR(t.value(), 6e-3 + 15e-6 + 20e-3 + 10e-6, 1e-12);
}

TEST(Nvls, NeedsASwitchThatCanReduce) {
  GroupPath path = inside_node(8);
  const KernelConstants c = no_base();
  const auto time = [&](bool able) {
    return collective_time(Collective::all_reduce, Bytes{1e9}, path, CollectiveAlgorithm::automatic, able, c);
  };
  EXPECT_EQ(time(true), time(false));  // no switch
  path.switched = true;
  EXPECT_LT(time(true), time(false));
}

TEST(Send, CrossesTheNetworkOrNot) {  // 20 MB: 0.2 ms at 100 GB/s, 1 ms at 20 GB/s
  const auto send = [](const GroupPath& path) {
    return collective_time(Collective::send, Bytes{20e6}, path, CollectiveAlgorithm::automatic, false,
                           no_base());
  };
  EXPECT_NEAR(send(inside_node(2)).value(), 0.2e-3 + 5e-6, 1e-12);
  EXPECT_NEAR(send(across_nodes(2, 1)).value(), 1e-3 + 10e-6, 1e-12);
}

TEST(GroupOfOne, TakesNoTime) {
  EXPECT_EQ(collective_time(Collective::all_reduce, Bytes{1e9}, inside_node(1),
                            CollectiveAlgorithm::automatic, false, {}),
            Seconds{0});
}

}  // namespace
}  // namespace tpplan
