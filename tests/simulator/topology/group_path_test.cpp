#include <gtest/gtest.h>

#include "simulator/topology/topology.hpp"
#include "tests/support/topologies.hpp"

namespace tpplan {
namespace {

using namespace testing;

TEST(GroupPath, AGroupThatStraddlesNodesUsesTheNetwork) {
  // 12 GPUs are 6 of each of two nodes. Groups of 4 neighbours: 0-3, 4-7, 8-11; the second has two ranks in
  // each node, so two ranks a node are what every group has. Two NICs of 50 GB/s at 0.75.
  const Topology topology = shipped("dgx-h100", 12);
  const GroupPath path = group_path(topology, {4, 1});
  EXPECT_EQ(path.local, 2);
  EXPECT_EQ(path.nodes, 2);
  EXPECT_NEAR(gigabytes(path.network_bandwidth), 2 * 50 * 0.75, 1e-9);
  // Groups of 3 and of 2 fill nodes of 6, also with two ranks between neighbours.
  EXPECT_EQ(group_path(topology, {3, 1}).nodes, 1);
  EXPECT_EQ(group_path(topology, {2, 1}).nodes, 1);
  EXPECT_EQ(group_path(topology, {3, 2}).nodes, 1);
  EXPECT_EQ(group_path(topology, {12, 1}).local, 6);
}

TEST(GroupPath, ARackOf72IsNotFilledByGroupsOf16) {
  EXPECT_EQ(group_path(shipped("gb200-nvl72", 144), {16, 1}).local, 8);   // 72 / 16 = 4.5, 72 / 8 = 9
  EXPECT_EQ(group_path(shipped("gb200-nvl72", 128), {16, 1}).local, 16);  // 64 of each rack
  const GroupPath rack = group_path(shipped("gb200-nvl72", 72), {72, 1});
  EXPECT_EQ(rack.local, 72);
  EXPECT_TRUE(rack.switched);
  EXPECT_NEAR(gigabytes(rack.local_bandwidth), 900 * 0.67, 1e-9);
}

TEST(GroupPath, AnyGroupFitsIntoASingleNode) {
  EXPECT_EQ(group_path(shipped("dgx-h100", 6), {3, 2}).nodes, 1);
  EXPECT_EQ(group_path(shipped("dgx-h100", 6), {4, 1}).nodes, 1);  // though 4 does not divide 6
}

TEST(GroupPath, CubeMeshQuadsAndPairsHaveTheirDirectLinks) {
  const Topology topology = shipped("dgx-1v", 8);
  // Among GPUs 0-3 each has at least 4 links (GPU 0: 1 + 1 + 2): 2 cycles, a ring each way, 4 x 25 GB/s.
  EXPECT_NEAR(gigabytes(group_path(topology, {4, 1}).local_bandwidth), 4 * 25 * 0.87, 1e-9);
  // Pairs 0-1, 2-3, 4-5, 6-7: the slowest has one link.
  EXPECT_NEAR(gigabytes(group_path(topology, {2, 1}).local_bandwidth), 25 * 0.87, 1e-9);
}

TEST(GroupPath, GpusUnderOneSwitchShareItsUplink) {
  const Topology topology = machine_of(pcie_box());
  EXPECT_NEAR(gigabytes(group_path(topology, {2, 1}).local_bandwidth), 30 * 0.8, 1e-9);  // under the switch
  // Pairs 0-2 and 1-3 cross together: half of the uplink each.
  const GroupPath crossing = group_path(topology, {2, 2});
  EXPECT_NEAR(gigabytes(crossing.local_bandwidth), 30 * 0.8 / 2, 1e-9);
  EXPECT_EQ(crossing.bottleneck, "pcie 30.0 GB/s between pci0 and cpu0, shared by 2 flows");
  // The ring 0-1-2-3 goes up once at each switch.
  EXPECT_NEAR(gigabytes(group_path(topology, {4, 1}).local_bandwidth), 30 * 0.8, 1e-9);
}

TEST(GroupPath, AGroupAcrossTheEdgeOfALeafIsOversubscribed) {
  // Leaves of 3 nodes and groups over pairs of nodes: nodes 2 and 3 lie under two leaves.
  Topology topology = shipped("selene", 48);
  topology.fabric.oversubscription = 2;
  topology.fabric.nodes_per_leaf = 3;
  EXPECT_NEAR(gigabytes(group_path(topology, {2, 8}).network_bandwidth), 25 * 0.75 / 2, 1e-9);
  topology.fabric.nodes_per_leaf = 4;
  EXPECT_NEAR(gigabytes(group_path(topology, {2, 8}).network_bandwidth), 25 * 0.75, 1e-9);
  // Six nodes under a leaf of eight: whatever the group, there is one leaf.
  topology.fabric.nodes_per_leaf = 8;
  EXPECT_NEAR(gigabytes(group_path(topology, {6, 8}).network_bandwidth), 25 * 0.75, 1e-9);
}

TEST(PairPath, OnePairOverTheNetworkIsEnough) {
  // Nodes of 6: of the pairs 0-4, 1-5, 2-6, 3-7 the last two cross.
  const GroupPath path = pair_path(shipped("dgx-h100", 12), 0, 4, 4, 4);
  EXPECT_EQ(path.nodes, 2);
  EXPECT_NEAR(gigabytes(path.network_bandwidth), 50 * 0.75, 1e-9);
}

TEST(PairPath, NeighbouringNodesOfTwoLeavesAreOversubscribed) {
  Topology topology = shipped("selene", 64);
  topology.fabric.nodes_per_leaf = 4;
  topology.fabric.oversubscription = 2;
  EXPECT_NEAR(gigabytes(pair_path(topology, 16, 24, 8, 8).network_bandwidth), 18.75, 1e-9);      // nodes 2, 3
  EXPECT_NEAR(gigabytes(pair_path(topology, 24, 32, 8, 8).network_bandwidth), 18.75 / 2, 1e-9);  // nodes 3, 4
}

TEST(WithGpus, CountsThatNoNodeDividesAreSpreadThin) {
  const Topology topology = shipped("dgx-h100", 8);
  EXPECT_EQ(with_gpus(topology, 5).nodes(), 1);
  EXPECT_EQ(with_gpus(topology, 5).used_per_node, 5);
  EXPECT_EQ(with_gpus(topology, 13).nodes(), 13);  // prime and more than a node: one of each
  EXPECT_EQ(with_gpus(topology, 20).nodes(), 4);   // 3 do not divide 20; 5 of each
}

}  // namespace
}  // namespace tpplan
