#pragma once

#include <string>
#include <vector>

#include "simulator/topology/topology.hpp"

namespace tpplan {

/// How ranks lie on the devices of a node, and why.
struct Placement {
  Topology topology;           // its GPUs reordered: GPU k of the tables is the device of local rank k
  std::vector<int> device_of;  // index of the device that local rank k uses
  std::string explanation;     // "tensor-parallel ranks are neighbours on NVLink 300 GB/s ..."
};

/// Puts the GPUs that NVLink joins next to each other, so that the innermost axis, tensor parallelism, which
/// talks most, stays on the fastest links; within such an island the widest direct links become neighbours.
/// Devices that no NVLink tells apart keep their order.
[[nodiscard]] Placement place_ranks(Topology topology);

}  // namespace tpplan
