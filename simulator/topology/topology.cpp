#include "simulator/topology/topology.hpp"

#include <algorithm>
#include <boost/graph/connected_components.hpp>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <queue>
#include <stdexcept>

#include "simulator/topology/rings.hpp"
#include "simulator/topology/routes.hpp"

namespace tpplan {
namespace {

/// Load of one direction of a link, in flows of equal rate.
using Flows = std::map<std::pair<NodeVertex, NodeVertex>, double>;

void add_route(const Topology& topology, NodeVertex from, NodeVertex to, Flows& flows) {
  NodeVertex at = from;
  for (const NodeEdge& edge : route(topology, from, to)) {
    const NodeVertex next = boost::source(edge, topology.node) == at ? boost::target(edge, topology.node)
                                                                     : boost::source(edge, topology.node);
    flows[{at, next}] += 1;
    at = next;
  }
}

struct Bottleneck {
  BytesPerSecond rate{std::numeric_limits<double>::infinity()};  // of one flow, efficiency included
  Seconds latency;
  LinkKind kind = LinkKind::nvlink;
  std::string words;
};

/// What the most loaded link leaves to each flow.
Bottleneck slowest(const Topology& topology, const Flows& flows) {
  Bottleneck worst;
  for (const auto& [ends, count] : flows) {
    const Link& link = topology.node[boost::edge(ends.first, ends.second, topology.node).first];
    const BytesPerSecond rate = link.bandwidth * link.efficiency / count;
    worst.latency = std::max(worst.latency, link.latency);
    if (rate >= worst.rate) continue;
    worst.rate = rate;
    worst.kind = link.kind;
    worst.words = fmt::format("{} {} between {} and {}", link.label, to_string(link.bandwidth),
                              topology.node[ends.first].name, topology.node[ends.second].name);
    if (count > 1) worst.words += fmt::format(", shared by {} flows", count);
  }
  return worst;
}

/// GPU indices within a node of the groups of `local` ranks at distance `stride`.
std::vector<std::vector<int>> local_groups(const Topology& topology, int local, int stride) {
  std::vector<std::vector<int>> groups;
  const int span = local * stride;
  for (int base = 0; base + span <= topology.used_per_node; base += span)
    for (int offset = 0; offset < stride; ++offset) {
      std::vector<int> group;
      for (int i = 0; i < local; ++i) group.push_back(base + offset + i * stride);
      groups.push_back(std::move(group));
    }
  return groups;
}

void fill_local(const Topology& topology, GroupPath& path, int stride) {
  const auto groups = local_groups(topology, path.local, stride);
  const auto switched = [&](int gpu) {
    for (const auto edge : boost::make_iterator_range(
             boost::out_edges(topology.gpu_vertices[static_cast<std::size_t>(gpu)], topology.node)))
      if (topology.node[boost::target(edge, topology.node)].kind == VertexKind::nvswitch) return true;
    return false;
  };
  path.switched = switched(0);
  if (!path.switched && topology.nvlink_domain > 1) {
    // A mesh: one group may run several rings over links that its neighbours do not use.
    if (const auto mesh = mesh_bandwidth(topology, groups)) {
      path.local_bandwidth = mesh->bandwidth;
      path.local_latency = mesh->latency;
      path.local_kind = LinkKind::nvlink;
      path.bottleneck = mesh->words;
      return;
    }
  }
  Flows flows;
  for (const auto& group : groups)
    for (std::size_t i = 0; i < group.size(); ++i)
      add_route(topology, topology.gpu_vertices[static_cast<std::size_t>(group[i])],
                topology.gpu_vertices[static_cast<std::size_t>(group[(i + 1) % group.size()])], flows);
  const Bottleneck worst = slowest(topology, flows);
  path.local_bandwidth = worst.rate;
  path.local_latency = worst.latency;
  path.local_kind = worst.kind;
  path.bottleneck = worst.words;
}

/// Flow of a group of `local` ranks in a node, in or out of it, when `senders` GPUs of the node, from `first`
/// on, take part in such a group.
void fill_network(const Topology& topology, GroupPath& path, bool crosses_leaves, int first, int senders) {
  const Fabric& fabric = topology.fabric;
  Flows flows;
  for (int sender = 0; sender < senders; ++sender) {
    const int gpu = (first + sender) % topology.used_per_node;
    const int nic = topology.nic_of_gpu[static_cast<std::size_t>(gpu)];
    add_route(topology, topology.gpu_vertices[static_cast<std::size_t>(gpu)],
              topology.nic_vertices[static_cast<std::size_t>(nic)], flows);
  }
  // A part of a node still has all its NICs; a GPU cannot use more of them than its PCIe path carries.
  const double share = static_cast<double>(topology.nics_per_node) / senders;
  const BytesPerSecond per_gpu_nic = fabric.nic_bandwidth * std::min(share, 1.0);
  const Bottleneck pcie = slowest(topology, flows);
  const double oversubscription = crosses_leaves ? fabric.oversubscription : 1;
  const BytesPerSecond line = per_gpu_nic * fabric.efficiency / oversubscription;
  const BytesPerSecond per_gpu = std::min(line, pcie.rate);
  path.network_bandwidth = per_gpu * path.local;
  path.network_latency = fabric.latency;
  if (path.local == 1 || path.network_bandwidth < path.local_bandwidth) {
    path.bottleneck = line <= pcie.rate ? fmt::format("NIC {}", to_string(fabric.nic_bandwidth)) : pcie.words;
    if (line <= pcie.rate && share < 1) path.bottleneck += fmt::format(", shared by {:.3g} GPUs", 1 / share);
    if (oversubscription > 1) path.bottleneck += fmt::format(", {:.3g}:1 oversubscribed", oversubscription);
  }
}

int nvlink_domain_of(const Topology& topology) {
  // GPUs reachable from GPU 0 over NVLink alone.
  std::vector<bool> seen(boost::num_vertices(topology.node), false);
  std::queue<NodeVertex> open;
  open.push(topology.gpu_vertices.front());
  seen[open.front()] = true;
  int gpus = 0;
  while (!open.empty()) {
    const NodeVertex at = open.front();
    open.pop();
    if (topology.node[at].kind == VertexKind::gpu) ++gpus;
    for (const auto edge : boost::make_iterator_range(boost::out_edges(at, topology.node))) {
      const NodeVertex next = boost::target(edge, topology.node);
      if (topology.node[edge].kind != LinkKind::nvlink || seen[next]) continue;
      seen[next] = true;
      open.push(next);
    }
  }
  return gpus;
}

/// Each GPU takes the NIC at the fewest hops that the fewest GPUs have taken.
std::vector<int> nearest_nics(const Topology& topology) {
  std::vector<int> taken(topology.nic_vertices.size(), 0), nearest;
  for (const NodeVertex gpu : topology.gpu_vertices) {
    const Routes routes(topology.node, gpu);
    int best = -1;
    std::pair<int, int> best_key{};
    for (std::size_t nic = 0; nic < topology.nic_vertices.size(); ++nic) {
      const std::pair key{routes.hops(topology.nic_vertices[nic]), taken[nic]};
      if (key.first < 0) continue;
      if (best < 0 || key < best_key) best = static_cast<int>(nic), best_key = key;
    }
    if (best < 0 && !topology.nic_vertices.empty())
      throw std::invalid_argument(fmt::format("{} does not reach any NIC", topology.node[gpu].name));
    if (best >= 0) ++taken[static_cast<std::size_t>(best)];
    nearest.push_back(best);
  }
  return nearest;
}

/// Names a vertex that no link joins to the first GPU.
void refuse_loose_vertices(const Topology& topology) {
  std::vector<int> part(boost::num_vertices(topology.node));
  boost::connected_components(topology.node, part.data());
  for (const auto vertex : boost::make_iterator_range(boost::vertices(topology.node)))
    if (part[vertex] != part[topology.gpu_vertices.front()])
      throw std::invalid_argument(fmt::format("{} is not linked to the GPUs; add its link or leave it out",
                                              topology.node[vertex].name));
}

/// Ranks of a group in one node, equally many in every node and group: they divide the group, and blocks of
/// local * stride ranks fill a node. Where groups do not fill the nodes evenly, some group straddles two
/// nodes, and the slowest group decides.
int local_ranks(const Topology& topology, GroupShape shape) {
  const int used = topology.used_per_node;
  if (topology.nodes() == 1) return shape.size;
  if (shape.stride >= used) return 1;
  int local = std::min(shape.size, used / shape.stride);
  while (local > 1 && (shape.size % local != 0 || used % (local * shape.stride) != 0)) --local;
  return local;
}

/// Whether some group that spans `nodes` neighbouring nodes, counted from a multiple of it, leaves its leaf.
bool leaves_leaf(const Topology& topology, int nodes) {
  const int leaf = topology.fabric.nodes_per_leaf;
  return leaf > 0 && topology.nodes() > leaf && (nodes > leaf || leaf % nodes != 0);
}

}  // namespace

void complete(Topology& topology) {
  for (const auto vertex : boost::make_iterator_range(boost::vertices(topology.node))) {
    if (topology.node[vertex].kind == VertexKind::gpu) topology.gpu_vertices.push_back(vertex);
    if (topology.node[vertex].kind == VertexKind::nic) topology.nic_vertices.push_back(vertex);
  }
  const auto by_index = [&](NodeVertex a, NodeVertex b) {
    return topology.node[a].index < topology.node[b].index;
  };
  std::sort(topology.gpu_vertices.begin(), topology.gpu_vertices.end(), by_index);
  std::sort(topology.nic_vertices.begin(), topology.nic_vertices.end(), by_index);
  if (topology.gpu_vertices.empty()) throw std::invalid_argument("a node needs at least one GPU");
  topology.gpus_per_node = static_cast<int>(topology.gpu_vertices.size());
  topology.nics_per_node = static_cast<int>(topology.nic_vertices.size());
  const Routes routes(topology.node, topology.gpu_vertices.front());
  for (const NodeVertex gpu : topology.gpu_vertices)
    if (routes.hops(gpu) < 0)
      throw std::invalid_argument(fmt::format("{} is not connected to {}", topology.node[gpu].name,
                                              topology.node[topology.gpu_vertices.front()].name));
  refuse_loose_vertices(topology);
  if (topology.fabric.kind != FabricKind::none && topology.nic_vertices.empty())
    throw std::invalid_argument("a fabric needs NICs in the node");
  topology.nvlink_domain = nvlink_domain_of(topology);
  topology.nic_of_gpu = nearest_nics(topology);
}

Topology with_gpus(Topology topology, int gpus) {
  if (gpus < 1) throw std::invalid_argument("at least one GPU is needed");
  int nodes = (gpus + topology.gpus_per_node - 1) / topology.gpus_per_node;
  while (gpus % nodes != 0) ++nodes;
  topology.gpus = gpus;
  topology.used_per_node = gpus / nodes;
  return topology;
}

GroupPath group_path(const Topology& topology, GroupShape shape) {
  GroupPath path;
  path.size = shape.size;
  path.stride = shape.stride;
  if (shape.size <= 1) return path;
  path.local = local_ranks(topology, shape);
  path.nodes = shape.size / path.local;
  if (path.local > 1) fill_local(topology, path, shape.stride);
  if (path.nodes > 1) {
    const int used = topology.used_per_node;
    const int span = std::max(path.nodes, (shape.size * shape.stride + used - 1) / used);
    fill_network(topology, path, leaves_leaf(topology, span), 0, used);
  }
  return path;
}

GroupPath pair_path(const Topology& topology, int from, int to, int count, int senders) {
  GroupPath path;
  path.size = 2;
  const int used = topology.used_per_node;
  const int leaf = topology.fabric.nodes_per_leaf;
  bool crosses_nodes = false, crosses_leaves = false;
  for (int i = 0; i < count; ++i) {
    const int a = (from + i) / used, b = (to + i) / used;
    crosses_nodes = crosses_nodes || a != b;
    crosses_leaves = crosses_leaves || (leaf > 0 && a / leaf != b / leaf);
  }
  if (crosses_nodes) {
    path.local = 1;
    path.nodes = 2;
    fill_network(topology, path, crosses_leaves, from % used, std::clamp(senders, 1, used));
    return path;
  }
  path.local = 2;
  path.nodes = 1;
  Flows flows;
  for (int i = 0; i < count && (from + i) / used == from / used; ++i)
    add_route(topology, topology.gpu_vertices[static_cast<std::size_t>((from + i) % used)],
              topology.gpu_vertices[static_cast<std::size_t>((to + i) % used)], flows);
  const Bottleneck worst = slowest(topology, flows);
  path.local_bandwidth = worst.rate;
  path.local_latency = worst.latency;
  path.local_kind = worst.kind;
  path.bottleneck = worst.words;
  return path;
}

}  // namespace tpplan
