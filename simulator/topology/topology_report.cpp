#include "simulator/topology/topology_report.hpp"

#include <algorithm>
#include <boost/graph/graphviz.hpp>
#include <fmt/format.h>
#include <sstream>

#include "simulator/topology/routes.hpp"

namespace tpplan {
namespace {

NodeVertex other_end(const NodeGraph& graph, const NodeEdge& edge, NodeVertex at) {
  return boost::source(edge, graph) == at ? boost::target(edge, graph) : boost::source(edge, graph);
}

std::string connection_of(const Topology& topology, const std::vector<NodeEdge>& edges, NodeVertex from) {
  const NodeGraph& graph = topology.node;
  int switches = 0, cpus = 0;
  bool nvlink = true, relayed = false;
  NodeVertex at = from;
  for (const NodeEdge& edge : edges) {
    nvlink = nvlink && graph[edge].kind == LinkKind::nvlink;
    at = other_end(graph, edge, at);
    if (graph[at].kind == VertexKind::gpu && &edge != &edges.back()) relayed = true;
    if (graph[at].kind == VertexKind::pci) ++switches;
    if (graph[at].kind == VertexKind::cpu) ++cpus;
  }
  if (nvlink) return relayed ? "relay" : graph[edges.front()].label;
  if (cpus > 1) return "SYS";
  if (cpus == 1) return "PHB";
  return switches > 1 ? "PXB" : "PIX";
}

std::string route_words(const Topology& topology, const std::vector<NodeEdge>& edges, NodeVertex from) {
  std::string words = topology.node[from].name;
  NodeVertex at = from;
  for (const NodeEdge& edge : edges) {
    at = other_end(topology.node, edge, at);
    words += " - " + topology.node[at].name;
  }
  return words;
}

}  // namespace

TopologyReport report_topology(const Topology& topology) {
  TopologyReport report;
  report.topology = topology;
  const auto& gpus = topology.gpu_vertices;
  report.bandwidth.assign(gpus.size(), std::vector<BytesPerSecond>(gpus.size()));
  report.connection.assign(gpus.size(), std::vector<std::string>(gpus.size(), "X"));
  for (std::size_t a = 0; a < gpus.size(); ++a) {
    const Routes routes(topology.node, gpus[a]);
    for (std::size_t b = 0; b < gpus.size(); ++b) {
      if (a == b) continue;
      const std::vector<NodeEdge> edges = routes.to(gpus[b]);
      report.bandwidth[a][b] = routes.width(gpus[b]);
      report.connection[a][b] = connection_of(topology, edges, gpus[a]);
      if (a == 0) report.routes.push_back(route_words(topology, edges, gpus[a]));
    }
  }
  // The narrowest step of a ring over everything: inside the node, and between nodes when there are several.
  const GroupPath inside =
      group_path(with_gpus(topology, topology.gpus_per_node), {topology.gpus_per_node, 1});
  report.weakest = inside.bottleneck.empty() ? "none: one GPU a node" : inside.bottleneck;
  if (topology.nodes() > 1) {
    const GroupPath between = group_path(topology, {topology.nodes(), topology.used_per_node});
    if (inside.local == 1 || between.network_bandwidth < inside.local_bandwidth)
      report.weakest = fmt::format("{}: {} for each GPU of a node", between.bottleneck,
                                   to_string(between.network_bandwidth));
  }
  return report;
}

std::string to_dot(const Topology& topology) {
  std::ostringstream out;
  boost::write_graphviz(
      out, topology.node,
      [&](std::ostream& stream, NodeVertex v) {
        constexpr std::array<const char*, 5> shapes{"box", "diamond", "ellipse", "house", "octagon"};
        stream << fmt::format("[label=\"{}\", shape={}]", topology.node[v].name,
                              shapes[static_cast<std::size_t>(topology.node[v].kind)]);
      },
      [&](std::ostream& stream, const NodeEdge& e) {
        // A label is the user's text and may hold quotes.
        const std::string text =
            fmt::format("{} {}", topology.node[e].label, to_string(topology.node[e].bandwidth));
        stream << "[label=" << boost::escape_dot_string(text) << "]";
      });
  return out.str();
}

}  // namespace tpplan
