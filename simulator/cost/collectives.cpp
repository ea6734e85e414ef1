#include "simulator/cost/collectives.hpp"

#include <algorithm>
#include <cmath>

namespace tpplan {
namespace {

BytesPerSecond ring_bandwidth(const GroupPath& path) {
  if (path.nodes == 1) return path.local_bandwidth;
  if (path.local == 1) return path.network_bandwidth;
  return std::min(path.local_bandwidth, path.network_bandwidth);
}

Seconds ring_step_latency(const GroupPath& path) {
  const double crossings = path.nodes > 1 ? path.nodes : 0;
  return (path.network_latency * crossings + path.local_latency * (path.size - crossings)) / path.size;
}

}  // namespace

Seconds ring_time(Collective what, Bytes bytes, const GroupPath& path) {
  const double rounds = what == Collective::all_reduce ? 2 : 1;
  const double steps = rounds * (path.size - 1);
  return steps * ring_step_latency(path) + bytes * (steps / path.size) / ring_bandwidth(path);
}

Seconds tree_time(Bytes bytes, const GroupPath& path, const KernelConstants& constants) {
  const double depth = std::ceil(std::log2(static_cast<double>(path.nodes)));
  const Seconds latency = 2 * (path.network_latency * depth + path.local_latency * (path.local - 1));
  const double volume = 2.0 * (path.size - 1) / path.size;
  return latency + bytes * volume / (ring_bandwidth(path) * constants.tree_bandwidth);
}

Seconds hierarchical_time(Collective what, Bytes bytes, const GroupPath& path) {
  GroupPath inside = path;
  inside.size = path.local;
  inside.nodes = 1;
  GroupPath between = path;
  between.size = path.nodes;
  between.local = 1;
  // Each of the `local` ranks of a node moves its share of the message over its share of the node's flow.
  const Bytes share = bytes / static_cast<double>(path.local);
  between.network_bandwidth = path.network_bandwidth / static_cast<double>(path.local);
  return ring_time(what, bytes, inside) + ring_time(what, share, between);
}

Seconds nvls_time(Bytes bytes, const GroupPath& path, const KernelConstants& constants) {
  return 2 * path.local_latency +
         bytes * (2.0 * (path.size - 1) / path.size) / (path.local_bandwidth * constants.nvls_bandwidth);
}

Seconds collective_time(Collective what, Bytes bytes, const GroupPath& path, CollectiveAlgorithm forced,
                        bool in_switch_reduction, const KernelConstants& constants) {
  if (path.size <= 1) return Seconds{0};
  const Seconds base = constants.collective_base;
  if (what == Collective::send) {
    const bool crosses = path.nodes > 1;
    return (crosses ? path.network_latency : path.local_latency) + base +
           bytes / (crosses ? path.network_bandwidth : path.local_bandwidth);
  }
  if (what == Collective::all_to_all) {
    // Each rank keeps 1 / n and sends the rest; the part that leaves the node shares its NICs.
    const double away = static_cast<double>(path.size - path.local) / path.size;
    const Seconds inside = bytes * (static_cast<double>(path.local - 1) / path.size) / path.local_bandwidth;
    const Seconds outside =
        path.nodes > 1 ? bytes * away * static_cast<double>(path.local) / path.network_bandwidth : Seconds{0};
    return base + std::max(inside, outside) +
           ring_step_latency(path) * std::log2(static_cast<double>(path.size));
  }
  const bool reduces_all = what == Collective::all_reduce;
  const bool two_levels = path.nodes > 1 && path.local > 1;
  const bool in_switch =
      in_switch_reduction && reduces_all && path.nodes == 1 && path.switched && path.size > 2;
  switch (forced) {
    case CollectiveAlgorithm::ring:
      return base + ring_time(what, bytes, path);
    case CollectiveAlgorithm::tree:
      return base + (reduces_all && path.nodes > 1 ? tree_time(bytes, path, constants)
                                                   : ring_time(what, bytes, path));
    case CollectiveAlgorithm::hierarchical:
      return base + (two_levels ? hierarchical_time(what, bytes, path) : ring_time(what, bytes, path));
    case CollectiveAlgorithm::nvls:
      return base + (in_switch ? nvls_time(bytes, path, constants) : ring_time(what, bytes, path));
    case CollectiveAlgorithm::automatic:
      break;
  }
  Seconds best = ring_time(what, bytes, path);
  if (reduces_all && path.nodes > 1) best = std::min(best, tree_time(bytes, path, constants));
  if (in_switch) best = std::min(best, nvls_time(bytes, path, constants));
  return base + best;
}

}  // namespace tpplan
