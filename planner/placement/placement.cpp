#include "planner/placement/placement.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tpplan {
namespace {

/// Bandwidth of the direct NVLink between two GPUs, or of their shared switch; 0 without.
double direct(const Topology& topology, NodeVertex a, NodeVertex b) {
  const std::vector<NodeEdge> edges = route(topology, a, b);
  if (edges.empty() || edges.size() > 2) return 0;
  double width = topology.node[edges.front()].bandwidth.value();
  for (const NodeEdge& edge : edges) {
    if (topology.node[edge].kind != LinkKind::nvlink) return 0;
    width = std::min(width, topology.node[edge].bandwidth.value());
  }
  return width;
}

}  // namespace

Placement place_ranks(Topology topology) {
  Placement placement;
  const std::vector<NodeVertex> gpus = topology.gpu_vertices;
  std::vector<bool> placed(gpus.size(), false);
  std::vector<std::size_t> order;
  while (order.size() < gpus.size()) {
    // The next device: the widest NVLink to the one before, the lowest index among equals.
    std::size_t best = gpus.size();
    double best_width = -1;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (placed[i]) continue;
      const double width = order.empty() ? 0 : direct(topology, gpus[order.back()], gpus[i]);
      if (width > best_width) best = i, best_width = width;
    }
    placed[best] = true;
    order.push_back(best);
  }
  const std::vector<int> nics = topology.nic_of_gpu;
  for (std::size_t i = 0; i < order.size(); ++i) {
    topology.gpu_vertices[i] = gpus[order[i]];
    topology.nic_of_gpu[i] = nics[order[i]];
    placement.device_of.push_back(static_cast<int>(order[i]));
  }
  const int island = topology.nvlink_domain;
  if (island <= 1) {
    placement.explanation = "no NVLink: all axes share the node's other links";
  } else {
    const GroupPath path = group_path(with_gpus(topology, island), {island, 1});
    placement.explanation =
        fmt::format("tensor-parallel ranks are neighbours inside the NVLink island of {} GPUs ({})", island,
                    path.bottleneck);
    if (!std::is_sorted(order.begin(), order.end()))
      placement.explanation += fmt::format("; local ranks use devices {}", fmt::join(order, ", "));
  }
  placement.topology = std::move(topology);
  return placement;
}

}  // namespace tpplan
