#pragma once

#include "simulator/document/document.hpp"
#include "simulator/topology/topology.hpp"

namespace tpplan {

/// A device from the map that describes it: the whole of a device file, or the `device:` of a machine file.
/// With a `base` the map holds only what differs from it. Throws ConfigError.
[[nodiscard]] DeviceSpec device_from(const Value& value, const std::optional<DeviceSpec>& base);

}  // namespace tpplan
