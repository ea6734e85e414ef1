#include "simulator/topology/routes.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace tpplan {

Routes::Routes(const NodeGraph& graph, NodeVertex from, std::optional<NodeVertex> only)
    : graph_(graph),
      from_(from),
      around_gpus_(grow(Relay::none, only)),
      along_nvlink_(grow(Relay::nvlink_gpus, only)) {}

/// Breadth first. The queue holds whole levels, so the width of a vertex is final when its turn comes.
Routes::Tree Routes::grow(Relay relay, std::optional<NodeVertex> only) const {
  const std::size_t count = boost::num_vertices(graph_);
  Tree tree{std::vector<int>(count, -1), std::vector<double>(count, 0), std::vector<NodeEdge>(count)};
  std::vector<NodeVertex> queue{from_};
  queue.reserve(count);
  tree.hops[from_] = 0;
  tree.width[from_] = std::numeric_limits<double>::infinity();
  for (std::size_t turn = 0; turn < queue.size(); ++turn) {
    const NodeVertex at = queue[turn];
    if (only && tree.hops[*only] >= 0 && tree.hops[at] >= tree.hops[*only]) break;
    const VertexKind kind = graph_[at].kind;
    if (at != from_ && (kind == VertexKind::nic || (kind == VertexKind::gpu && relay == Relay::none)))
      continue;
    for (const auto edge : boost::make_iterator_range(boost::out_edges(at, graph_))) {
      const Link& link = graph_[edge];
      if (relay == Relay::nvlink_gpus && link.kind != LinkKind::nvlink) continue;
      const NodeVertex next = boost::target(edge, graph_);
      const double through = std::min(tree.width[at], link.bandwidth.value() * link.efficiency);
      if (tree.hops[next] < 0) {
        tree.hops[next] = tree.hops[at] + 1;
        queue.push_back(next);
      } else if (tree.hops[next] != tree.hops[at] + 1 || through <= tree.width[next]) {
        continue;
      }
      tree.width[next] = through;
      tree.arrived[next] = edge;
    }
  }
  return tree;
}

const Routes::Tree& Routes::better(NodeVertex to) const {
  const int around = around_gpus_.hops[to], along = along_nvlink_.hops[to];
  if (along < 0) return around_gpus_;
  if (around < 0) return along_nvlink_;
  return std::tuple(around, -around_gpus_.width[to]) <= std::tuple(along, -along_nvlink_.width[to])
             ? around_gpus_
             : along_nvlink_;
}

int Routes::hops(NodeVertex to) const { return better(to).hops[to]; }

BytesPerSecond Routes::width(NodeVertex to) const { return BytesPerSecond{better(to).width[to]}; }

std::vector<NodeEdge> Routes::to(NodeVertex to) const {
  const Tree& tree = better(to);
  std::vector<NodeEdge> edges;
  if (tree.hops[to] < 0) return edges;
  for (NodeVertex at = to; at != from_;) {
    edges.push_back(tree.arrived[at]);
    at = boost::source(edges.back(), graph_) == at ? boost::target(edges.back(), graph_)
                                                   : boost::source(edges.back(), graph_);
  }
  std::reverse(edges.begin(), edges.end());
  return edges;
}

std::vector<NodeEdge> route(const Topology& topology, NodeVertex from, NodeVertex to) {
  return Routes(topology.node, from, to).to(to);
}

}  // namespace tpplan
