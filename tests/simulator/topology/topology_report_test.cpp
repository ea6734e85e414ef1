#include "simulator/topology/topology_report.hpp"

#include <boost/graph/graphviz.hpp>
#include <gtest/gtest.h>

#include "tests/support/topologies.hpp"

namespace tpplan {
namespace {

using namespace testing;

/// The node read back from its DOT text, with the label of every vertex and edge.
struct Labelled {
  std::string id, label;
};
using Parsed = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, Labelled, Labelled>;

Parsed parse(const std::string& dot) {
  Parsed graph;
  boost::dynamic_properties properties(boost::ignore_other_properties);
  properties.property("node_id", boost::get(&Labelled::id, graph));
  properties.property("label", boost::get(&Labelled::label, graph));
  EXPECT_TRUE(boost::read_graphviz(dot, graph, properties));
  return graph;
}

TEST(ToDot, IsReadBackWithEveryVertexAndLink) {
  for (const char* name : {"dgx-1v", "dgx-a100-80g", "gb200-nvl72", "local-cpu"}) {
    const Topology topology =
        read_topology(kTopologies / (std::string(name) + ".yaml"), kTopologies / "devices");
    const Parsed graph = parse(to_dot(topology));
    EXPECT_EQ(boost::num_vertices(graph), boost::num_vertices(topology.node)) << name;
    EXPECT_EQ(boost::num_edges(graph), boost::num_edges(topology.node)) << name;
  }
}

TEST(ToDot, QuotesInALabelStayInTheLabel) {
  const Topology topology = machine_of(pcie_box(
      "    - {from: gpu0, to: gpu2, kind: nvlink, bandwidth: 50 GB/s, latency: 5 us, label: 'a \"b\" c'}\n"));
  EXPECT_NE(to_dot(topology).find("a \\\"b\\\" c 50.0 GB/s"), std::string::npos);
  EXPECT_EQ(boost::num_edges(parse(to_dot(topology))), 7U);  // 4 GPUs, 2 switches, 1 bridge
}

TEST(TopologyReport, NamesConnectionsAsNvidiaSmiDoes) {
  const TopologyReport box = report_topology(machine_of(pcie_box()));
  EXPECT_EQ(box.connection[0], (std::vector<std::string>{"X", "PIX", "PHB", "PHB"}));
  // The bridged cards of the 3090 workstation, as its own matrix shows them.
  const TopologyReport cards = report_topology(shipped("3090-4x", 4));
  EXPECT_EQ(cards.connection[0], (std::vector<std::string>{"X", "PHB", "NV4", "PHB"}));
  EXPECT_EQ(cards.connection[1], (std::vector<std::string>{"PHB", "X", "PHB", "NV4"}));
}

TEST(TopologyReport, EachGpuHasTheNicOfItsSwitch) {
  // DGX A100: GPUs 0 and 1, NICs 0 and 1 under pci0, and so on.
  EXPECT_EQ(shipped("dgx-a100-80g", 8).nic_of_gpu, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(shipped("jean-zay-a100", 8).nic_of_gpu, (std::vector<int>{0, 0, 1, 1, 2, 2, 3, 3}));
}

}  // namespace
}  // namespace tpplan
