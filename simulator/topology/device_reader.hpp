#pragma once

#include "simulator/document/document.hpp"
#include "simulator/topology/topology.hpp"

namespace tpplan {

/// A device from the map that describes it: the whole of a device file, or the `device:` of a machine file.
[[nodiscard]] DeviceSpec device_from(const Value& value);

}  // namespace tpplan
