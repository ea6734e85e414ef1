#include "simulator/topology/routes.hpp"

#include <gtest/gtest.h>

#include "simulator/topology/topology_report.hpp"
#include "tests/support/topologies.hpp"

namespace tpplan {
namespace {

using namespace testing;

std::vector<std::string> names(const Topology& topology, int from, int to) {
  const NodeVertex start = topology.gpu_vertices[static_cast<std::size_t>(from)];
  std::vector<std::string> found{topology.node[start].name};
  NodeVertex at = start;
  for (const NodeEdge& edge : route(topology, start, topology.gpu_vertices[static_cast<std::size_t>(to)])) {
    at = boost::source(edge, topology.node) == at ? boost::target(edge, topology.node)
                                                  : boost::source(edge, topology.node);
    found.push_back(topology.node[at].name);
  }
  return found;
}

const std::string kBridge = "    - {from: gpu1, to: gpu2, kind: nvlink, bandwidth: 50 GB/s, latency: 5 us}\n";

TEST(Routes, AGpuHandsOnNothingThatCameOverPcie) {
  // gpu0 - pci0 - gpu1 - gpu2 has three links, but no GPU forwards from PCIe to its bridge: four links
  // through the CPU.
  const Topology topology = machine_of(pcie_box(kBridge));
  EXPECT_EQ(names(topology, 0, 2), (std::vector<std::string>{"gpu0", "pci0", "cpu0", "pci1", "gpu2"}));
  EXPECT_EQ(names(topology, 2, 0), (std::vector<std::string>{"gpu2", "pci1", "cpu0", "pci0", "gpu0"}));
  EXPECT_EQ(names(topology, 1, 2), (std::vector<std::string>{"gpu1", "gpu2"}));
}

TEST(Routes, NvlinkIsHandedOnByGpus) {
  // GPUs 0 and 5 of the hybrid cube mesh share no link; 0-1-5 and 0-4-5 have both a single link of 25 GB/s.
  const Topology topology = shipped("dgx-1v", 8);
  EXPECT_EQ(names(topology, 0, 5).size(), 3U);
  const Routes routes(topology.node, topology.gpu_vertices[0]);
  EXPECT_NEAR(gigabytes(routes.width(topology.gpu_vertices[5])), 25 * 0.87, 1e-9);
}

TEST(Routes, TheWidestOfTheShortestIsTaken) {
  // Two switches join the same two GPUs; what counts is what collectives reach: 40 x 0.5 < 25 x 0.9.
  const std::string text =
      "name: m\ndevice: rtx-3090\nnode:\n  gpus: 2\n  pci: 2\n  links:\n"
      "    - {from: \"gpu[0-1]\", to: pci0, kind: pcie, bandwidth: 40 GB/s, latency: 5 us, efficiency: 0.5}\n"
      "    - {from: \"gpu[0-1]\", to: pci1, kind: pcie, bandwidth: 25 GB/s, latency: 5 us, efficiency: "
      "0.9}\n";
  EXPECT_EQ(names(machine_of(text), 0, 1), (std::vector<std::string>{"gpu0", "pci1", "gpu1"}));
}

TEST(Routes, OneRouteAloneIsTheSameAsAmongAll) {
  const Topology topology = shipped("dgx-1v", 8);
  for (const NodeVertex from : topology.gpu_vertices) {
    const Routes all(topology.node, from);
    for (const auto to : boost::make_iterator_range(boost::vertices(topology.node)))
      EXPECT_EQ(Routes(topology.node, from, to).to(to), all.to(to));
  }
}

TEST(Routes, AreAsWideAndOfTheSameKindBothWays) {
  std::vector<Topology> machines{machine_of(pcie_box()), machine_of(pcie_box(kBridge))};
  for (const auto& entry : std::filesystem::directory_iterator(kTopologies))
    if (entry.path().extension() == ".yaml")
      machines.push_back(read_topology(entry.path(), kTopologies / "devices"));
  for (const Topology& topology : machines) {
    const TopologyReport report = report_topology(topology);
    for (std::size_t a = 0; a < report.bandwidth.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) {
        EXPECT_EQ(report.bandwidth[a][b], report.bandwidth[b][a]) << topology.name << ' ' << a << ' ' << b;
        EXPECT_EQ(report.connection[a][b], report.connection[b][a]) << topology.name << ' ' << a << ' ' << b;
      }
  }
}

}  // namespace
}  // namespace tpplan
