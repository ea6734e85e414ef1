#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/placement/placement.hpp"
#include "simulator/topology/cluster_builder.hpp"
#include "simulator/topology/topology_report.hpp"
#include "tests/support/topologies.hpp"

namespace tpplan {
namespace {

using ::testing::HasSubstr;

using namespace testing;

TEST(Topology, EveryShippedMachineLoads) {
  int machines = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kTopologies)) {
    if (entry.path().extension() != ".yaml") continue;
    const Topology topology = read_topology(entry.path(), kTopologies / "devices");
    EXPECT_EQ(topology.name, entry.path().stem().string());
    EXPECT_FALSE(topology.source.empty()) << entry.path();
    EXPECT_FALSE(topology.device.source.empty()) << entry.path();
    ++machines;
  }
  EXPECT_GE(machines, 18);
}

TEST(GroupPath, TensorParallelStaysOnTheSwitch) {
  const GroupPath path = group_path(shipped("dgx-a100-80g", 128), {8, 1});
  EXPECT_EQ(path.local, 8);
  EXPECT_EQ(path.nodes, 1);
  EXPECT_TRUE(path.switched);
  EXPECT_NEAR(gigabytes(path.local_bandwidth), 300 * 0.775, 1e-9);
}

TEST(GroupPath, RanksOfANodeShareItsNics) {
  // Stride 8: one rank a node, one NIC of 25 GB/s. Stride 4: two ranks a node and group, two NICs. 0.75 of
  // line rate.
  const Topology topology = shipped("dgx-a100-80g", 128);
  EXPECT_NEAR(gigabytes(group_path(topology, {16, 8}).network_bandwidth), 25 * 0.75, 1e-9);
  EXPECT_NEAR(gigabytes(group_path(topology, {32, 4}).network_bandwidth), 2 * 25 * 0.75, 1e-9);
  // Four NICs for eight GPUs: half of one each.
  EXPECT_NEAR(gigabytes(group_path(shipped("jean-zay-a100", 64), {8, 8}).network_bandwidth), 12.5 / 2 * 0.75,
              1e-9);
}

TEST(GroupPath, OversubscriptionCountsAcrossLeavesOnly) {
  Topology topology = shipped("selene", 64);
  topology.fabric.nodes_per_leaf = 4;
  topology.fabric.oversubscription = 2;
  EXPECT_NEAR(gigabytes(group_path(topology, {4, 8}).network_bandwidth), 18.75, 1e-9);
  EXPECT_NEAR(gigabytes(group_path(topology, {8, 8}).network_bandwidth), 18.75 / 2, 1e-9);
}

TEST(GroupPath, HybridCubeMeshPacksSixRings) {
  // Eight V100 with six NVLinks of 25 GB/s each: six rings at 0.87, the 130 GB/s that nccl-tests shows on
  // this machine.
  EXPECT_NEAR(gigabytes(group_path(shipped("dgx-1v", 8), {8, 1}).local_bandwidth), 6 * 25 * 0.87, 1e-9);
}

TEST(GroupPath, SharedPcieLinkIsDividedAmongItsFlows) {
  // Four pairs across the two CPUs of a PCIe box, each way at once: 64 GB/s x 0.5 / 4.
  EXPECT_NEAR(gigabytes(group_path(shipped("a10g-8x", 8), {2, 4}).local_bandwidth), 8, 1e-9);
}

TEST(PairPath, NeighbouringStagesInANodeUseTheSwitch) {
  const Topology topology = shipped("dgx-h100", 64);
  EXPECT_EQ(pair_path(topology, 0, 4, 4, 4).nodes, 1);
  EXPECT_EQ(pair_path(topology, 4, 8, 4, 4).nodes, 2);
  EXPECT_NEAR(gigabytes(pair_path(topology, 4, 8, 4, 4).network_bandwidth), 50 * 0.75, 1e-9);
}

TEST(PairPath, OnlyTheRanksThatSendShareTheNics) {
  Topology topology = shipped("dgx-1v", 16);  // 4 NICs for 8 GPUs
  const auto share = [&](int senders) {
    return gigabytes(pair_path(topology, 0, 8, 1, senders).network_bandwidth);
  };
  EXPECT_NEAR(share(1), 12.5 * 0.75, 1e-9);  // a GPU uses one NIC
  EXPECT_NEAR(share(2), 6.3, 1e-9);          // two that are neighbours share a PCIe switch
  EXPECT_NEAR(share(8), 12.5 * 0.75 / 2, 1e-9);
}

TEST(WithGpus, TakesTheFewestEvenNodes) {
  const Topology rack = shipped("gb200-nvl72", 72);
  EXPECT_EQ(with_gpus(rack, 256).nodes(), 4);  // 64 of each rack of 72
  EXPECT_EQ(with_gpus(rack, 256).used_per_node, 64);
  EXPECT_EQ(with_gpus(rack, 8).nodes(), 1);
  EXPECT_EQ(with_gpus(shipped("dgx-h100", 8), 12).nodes(), 2);  // 6 and 6
  EXPECT_THROW((void)with_gpus(rack, 0), std::invalid_argument);
}

TEST(MakeCluster, HasTheFiguresItWasGiven) {
  const DeviceSpec device = read_device(kTopologies / "devices/a100-sxm4-80gb.yaml");
  const Topology topology = make_cluster(device, 64, 8, 8, gigabytes_per_second(200));
  EXPECT_EQ(topology.nodes(), 8);
  EXPECT_EQ(topology.nvlink_domain, 8);
  EXPECT_NEAR(gigabytes(group_path(topology, {8, 8}).network_bandwidth), 25 * topology.fabric.efficiency,
              1e-9);
}

TEST(PlaceRanks, NvlinkedPairsBecomeNeighbours) {
  // Four cards bridged crosswise, 0-2 and 1-3: tensor parallelism over ranks 0 and 1 must find its bridge.
  const Placement placement = place_ranks(shipped("3090-4x", 4));
  EXPECT_EQ(placement.device_of, (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(group_path(placement.topology, {2, 1}).local_kind, LinkKind::nvlink);
  EXPECT_THAT(placement.explanation, HasSubstr("local ranks use devices 0, 2, 1, 3"));
}

TEST(TopologyReport, MatrixIsSymmetricAndTheWeakestLinkIsNamed) {
  const TopologyReport report = report_topology(shipped("dgx-a100-80g", 16));
  for (std::size_t a = 0; a < 8; ++a)
    for (std::size_t b = 0; b < 8; ++b) EXPECT_EQ(report.bandwidth[a][b], report.bandwidth[b][a]);
  EXPECT_EQ(report.connection[0][1], "NV12");
  EXPECT_THAT(report.weakest, HasSubstr("NIC 25.0 GB/s"));
  const TopologyReport box = report_topology(shipped("a10g-8x", 8));
  EXPECT_EQ(box.connection[0][1], "PHB");
  EXPECT_EQ(box.connection[0][7], "SYS");
  EXPECT_THAT(to_dot(shipped("dgx-1v", 8)), HasSubstr("graph G {"));
}

std::string machine(const std::string& links, const std::string& rest = "") {
  return "name: m\ndevice: rtx-3090\nnode:\n  gpus: 4\n  cpus: 1\n  links:\n" + links + rest;
}

TEST(TopologyReader, EachMistakeHasItsPlaceAndRemedy) {
  const std::string good =
      "    - {from: \"gpu[0-3]\", to: cpu0, kind: pcie, bandwidth: 30 GB/s, latency: 5 us}\n";
  EXPECT_EQ(error_of(machine(good)), "no error");
  EXPECT_THAT(
      error_of(
          machine("    - {from: \"gpu[0-4]\", to: cpu0, kind: pcie, bandwidth: 30 GB/s, latency: 5 us}\n")),
      HasSubstr(":7:14: node.links[0].from: 'gpu[0-4]' is out of bounds: the node has 4 of this kind"));
  EXPECT_THAT(
      error_of(machine("    - {from: gpu0, to: gpu0, kind: nvlink, bandwidth: 30 GB/s, latency: 5 us}\n")),
      HasSubstr("gpu0 is linked to itself"));
  EXPECT_THAT(error_of(machine("    - {from: gpu0, to: cpu0, kind: pcie, bandwidth: 300, latency: 5 us}\n")),
              HasSubstr("'300' has no unit; write it as '300 GB/s'"));
  EXPECT_THAT(
      error_of(machine("    - {from: gpu0, to: cpu0, kind: pci, bandwidth: 3 GB/s, latency: 5 us}\n")),
      HasSubstr("did you mean 'pcie'?"));
  EXPECT_THAT(
      error_of(machine("    - {from: gpu0, to: cpu0, kind: pcie, bandwidth: 3 GB/s, latency: 5 us}\n")),
      HasSubstr("gpu1 is not connected to gpu0"));
  EXPECT_THAT(error_of(machine(good + good)), HasSubstr("gpu0 and cpu0 are linked twice"));
  EXPECT_THAT(error_of(machine(good, "nodes: 2\n")), HasSubstr("several nodes need a fabric"));
  EXPECT_THAT(error_of(machine(good, "fabric: {kind: fat-tree, nic_bandwidth: 25 GB/s}\n")),
              HasSubstr("a fabric needs NICs"));
  EXPECT_THAT(error_of(machine(good, "fabrik: 1\n")),
              HasSubstr("unknown key 'fabrik'; did you mean 'fabric'?"));
  EXPECT_THAT(error_of("name: m\ndevice: a100-sxm4-80g\nnode: {gpus: 1}\n"),
              HasSubstr("did you mean 'a100-sxm4-80gb'?"));
  EXPECT_THAT(error_of("name: m\ndevice: a10g\nnode: {gpus: 100000}\n"), HasSubstr("outside 1 .. 1024"));
}

}  // namespace
}  // namespace tpplan
