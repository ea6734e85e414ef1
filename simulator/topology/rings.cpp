#include "simulator/topology/rings.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace tpplan {
namespace {

constexpr std::size_t kLargestSearch = 8;
constexpr int kSearchSteps = 200'000;

/// Free lanes between GPUs: lanes[a][b] = lanes[b][a].
using Lanes = std::vector<std::vector<int>>;
using Cycle = std::vector<int>;

int& lane(Lanes& lanes, int a, int b) {
  return lanes[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
}

/// Every cycle through all of `group` over free lanes, each undirected cycle once. Two GPUs make a cycle of
/// one lane.
std::vector<Cycle> cycles_of(Lanes& lanes, const std::vector<int>& group) {
  std::vector<Cycle> cycles;
  Cycle order = group;
  std::sort(order.begin() + 1, order.end());
  do {
    if (order.size() > 2 && order[1] > order.back()) continue;  // the same cycle backwards
    bool free = true;
    for (std::size_t i = 0; i < order.size() && free; ++i)
      free = lane(lanes, order[i], order[(i + 1) % order.size()]) > 0;
    if (free) cycles.push_back(order);
  } while (std::next_permutation(order.begin() + 1, order.end()));
  return cycles;
}

/// Packs as many cycles as the lanes allow: depth-first over combinations, until no more is possible or the
/// budget is spent.
class Packing {
 public:
  Packing(Lanes lanes, std::vector<Cycle> cycles, std::size_t bound)
      : lanes_(std::move(lanes)), cycles_(std::move(cycles)), bound_(bound) {
    extend(0);
  }
  [[nodiscard]] const std::vector<std::size_t>& best() const { return best_; }
  [[nodiscard]] const std::vector<Cycle>& cycles() const { return cycles_; }

  static void take(Lanes& lanes, const Cycle& cycle, int count) {
    const std::size_t edges = cycle.size() == 2 ? 1 : cycle.size();
    for (std::size_t i = 0; i < edges; ++i) {
      const int a = cycle[i], b = cycle[(i + 1) % cycle.size()];
      lane(lanes, a, b) -= count;
      lane(lanes, b, a) -= count;
    }
  }

 private:
  [[nodiscard]] bool fits(const Cycle& cycle) {
    const std::size_t edges = cycle.size() == 2 ? 1 : cycle.size();
    for (std::size_t i = 0; i < edges; ++i)
      if (lane(lanes_, cycle[i], cycle[(i + 1) % cycle.size()]) <= 0) return false;
    return true;
  }
  void extend(std::size_t from) {
    if (chosen_.size() > best_.size()) best_ = chosen_;
    for (std::size_t i = from; i < cycles_.size() && best_.size() < bound_ && steps_ < kSearchSteps;
         ++i, ++steps_) {
      if (!fits(cycles_[i])) continue;
      take(lanes_, cycles_[i], 1);
      chosen_.push_back(i);
      extend(i);
      chosen_.pop_back();
      take(lanes_, cycles_[i], -1);
    }
  }

  Lanes lanes_;
  std::vector<Cycle> cycles_;
  std::size_t bound_;
  std::vector<std::size_t> chosen_, best_;
  int steps_ = 0;
};

}  // namespace

std::optional<RingBandwidth> mesh_bandwidth(const Topology& topology,
                                            const std::vector<std::vector<int>>& groups) {
  const NodeGraph& graph = topology.node;
  double narrowest = 0;
  double efficiency = 1;
  Seconds latency{};
  for (const auto edge : boost::make_iterator_range(boost::edges(graph))) {
    const Link& link = graph[edge];
    if (link.kind != LinkKind::nvlink) continue;
    narrowest = narrowest == 0 ? link.bandwidth.value() : std::min(narrowest, link.bandwidth.value());
    efficiency = std::min(efficiency, link.efficiency);
    latency = std::max(latency, link.latency);
  }
  if (narrowest == 0) return std::nullopt;

  const std::size_t count = topology.gpu_vertices.size();
  Lanes lanes(count, std::vector<int>(count, 0));
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < count; ++b)
      if (const auto [edge, exists] = boost::edge(topology.gpu_vertices[a], topology.gpu_vertices[b], graph);
          exists && graph[edge].kind == LinkKind::nvlink)
        lanes[a][b] = static_cast<int>(std::lround(graph[edge].bandwidth.value() / narrowest));

  int fewest = 1 << 20;
  for (const std::vector<int>& group : groups) {
    if (group.size() > kLargestSearch) return std::nullopt;
    // No more cycles than the GPU with the fewest lanes allows; a cycle carries one ring each way.
    int lanes_of_poorest = 1 << 20;
    for (const int a : group) {
      int total = 0;
      for (const int b : group) total += lane(lanes, a, b);
      lanes_of_poorest = std::min(lanes_of_poorest, total);
    }
    const int directions = group.size() == 2 ? 1 : 2;
    const Packing packing(lanes, cycles_of(lanes, group),
                          static_cast<std::size_t>(lanes_of_poorest / directions));
    for (const std::size_t chosen : packing.best()) Packing::take(lanes, packing.cycles()[chosen], 1);
    const int rings = static_cast<int>(packing.best().size()) * directions;
    fewest = std::min(fewest, rings);
  }
  if (fewest == 0 || groups.empty()) return std::nullopt;
  const BytesPerSecond width{narrowest};
  return RingBandwidth{width * (fewest * efficiency), latency,
                       fmt::format("{} NVLink rings of {}", fewest, to_string(width))};
}

}  // namespace tpplan
