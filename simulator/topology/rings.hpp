#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/topology/topology.hpp"

namespace tpplan {

struct RingBandwidth {
  BytesPerSecond bandwidth;  // all rings of one group together, efficiency included
  Seconds latency;           // of one step
  std::string words;         // "6 NVLink rings of 25 GB/s"
};

/// Bus bandwidth over NVLinks that join GPUs directly, all `groups` (of GPU indices) at once: as many rings
/// as possible are packed into each group's lanes, as NCCL's search does; a lane is as wide as the narrowest
/// NVLink. Nothing when some group has no ring, so that the caller routes over PCIe, and for groups of more
/// than 8.
[[nodiscard]] std::optional<RingBandwidth> mesh_bandwidth(const Topology& topology,
                                                          const std::vector<std::vector<int>>& groups);

}  // namespace tpplan
