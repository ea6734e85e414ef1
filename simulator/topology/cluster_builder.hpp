#pragma once

#include "simulator/topology/topology.hpp"

namespace tpplan {

/// A cluster that is known by its figures only: nodes of max(gpus_per_machine, nvlink_domain) GPUs, one
/// NVSwitch for each nvlink_domain of them (none when it is 1 or the device has no NVLink), one NIC a GPU,
/// the NICs of a machine sharing `network_per_machine`, on a rail-optimised fabric. NVLink figures are the
/// device's; PCIe never limits a NIC. All arguments are at least 1.
[[nodiscard]] Topology make_cluster(const DeviceSpec& device, int gpus, int gpus_per_machine,
                                    int nvlink_domain, BytesPerSecond network_per_machine);

}  // namespace tpplan
