#include "simulator/topology/cluster_builder.hpp"

#include <gtest/gtest.h>

#include "tests/support/topologies.hpp"

namespace tpplan {
namespace {

using namespace testing;

TEST(MakeCluster, IslandsSmallerThanAMachineHaveTheirOwnSwitch) {
  const DeviceSpec device = read_device(kTopologies / "devices/a100-sxm4-80gb.yaml");
  const Topology topology = make_cluster(device, 16, 8, 4, gigabytes_per_second(200));
  EXPECT_EQ(topology.gpus_per_node, 8);
  EXPECT_EQ(topology.nvlink_domain, 4);
  EXPECT_NEAR(gigabytes(group_path(topology, {4, 1}).local_bandwidth), 300 * 0.775, 1e-9);
  EXPECT_EQ(group_path(topology, {8, 1}).local_kind, LinkKind::pcie);
}

TEST(MakeCluster, ADomainOfOneHasNoNvlink) {
  const DeviceSpec device = read_device(kTopologies / "devices/a100-sxm4-80gb.yaml");
  const Topology topology = make_cluster(device, 8, 8, 1, gigabytes_per_second(200));
  EXPECT_EQ(topology.nvlink_domain, 1);
  EXPECT_FALSE(group_path(topology, {8, 1}).switched);
  EXPECT_EQ(group_path(topology, {8, 1}).local_kind, LinkKind::pcie);
}

TEST(MakeCluster, ARackIsOneNodeWithTheNicsOfItsMachines) {
  // 18 machines of 4 GPUs, 200 GB/s each: 50 GB/s a GPU, at 0.75 of line rate.
  const DeviceSpec device = read_device(kTopologies / "devices/gb200.yaml");
  const Topology topology = make_cluster(device, 144, 4, 72, gigabytes_per_second(200));
  EXPECT_EQ(topology.nodes(), 2);
  EXPECT_EQ(topology.nvlink_domain, 72);
  EXPECT_NEAR(gigabytes(group_path(topology, {2, 72}).network_bandwidth), 50 * topology.fabric.efficiency,
              1e-9);
}

}  // namespace
}  // namespace tpplan
