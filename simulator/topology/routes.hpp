#pragma once

#include <optional>
#include <vector>

#include "simulator/topology/topology.hpp"

namespace tpplan {

/// Routes from one vertex of a node: the fewest links, among those the widest (bandwidth x efficiency of the
/// narrowest link). GPUs hand on what came over NVLink to another NVLink and nothing else, NICs hand on
/// nothing, so that a route is as long and as wide as the one back.
class Routes {
 public:
  /// All routes from `from`, or, when `only` is given, the one to it.
  Routes(const NodeGraph& graph, NodeVertex from, std::optional<NodeVertex> only = std::nullopt);

  /// Links to `to`; -1 when it cannot be reached.
  [[nodiscard]] int hops(NodeVertex to) const;
  /// What the narrowest link of the route carries in collectives; 0 when there is no route.
  [[nodiscard]] BytesPerSecond width(NodeVertex to) const;
  /// The links in order; empty for `from` itself and for what cannot be reached.
  [[nodiscard]] std::vector<NodeEdge> to(NodeVertex to) const;

 private:
  struct Tree {
    std::vector<int> hops;  // -1: not reached
    std::vector<double> width;
    std::vector<NodeEdge> arrived;
  };
  enum class Relay { none, nvlink_gpus };
  [[nodiscard]] Tree grow(Relay relay, std::optional<NodeVertex> only) const;
  [[nodiscard]] const Tree& better(NodeVertex to) const;

  const NodeGraph& graph_;
  NodeVertex from_;
  Tree around_gpus_;   // no GPU in between
  Tree along_nvlink_;  // over NVLink alone, through GPUs too
};

}  // namespace tpplan
