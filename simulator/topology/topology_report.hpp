#pragma once

#include <string>
#include <vector>

#include "simulator/topology/topology.hpp"

namespace tpplan {

/// What a user wants to see of a node: in the words of `nvidia-smi topo -m`.
struct TopologyReport {
  Topology topology;
  std::vector<std::vector<BytesPerSecond>> bandwidth;  // [gpu][gpu], one flow alone, efficiency included
  std::vector<std::vector<std::string>> connection;    // [gpu][gpu]: "NV12", "PIX", "PXB", "PHB", "SYS", "X"
  std::vector<std::string> routes;                     // from gpu0: "gpu0 - nvswitch0 - gpu5"
  std::string weakest;  // the narrowest link that any collective must cross, in words
};

/// PIX: one PCIe switch; PXB: several; PHB: through a CPU; SYS: between CPUs; NVx: NVLink;
/// relay: NVLink through another GPU.
[[nodiscard]] TopologyReport report_topology(const Topology& topology);

/// The node as a Graphviz graph.
[[nodiscard]] std::string to_dot(const Topology& topology);

}  // namespace tpplan
