#pragma once

#include <filesystem>

#include "simulator/topology/topology.hpp"

namespace tpplan {

/// Reads a device file (docs/formats.md). Throws ConfigError with file, line, column and remedy.
[[nodiscard]] DeviceSpec read_device(const std::filesystem::path& file);

/// Reads a machine file; its device is a map of its own or the stem of a file in `devices`. The result has as
/// many GPUs as the file's `nodes` hold. Throws ConfigError.
[[nodiscard]] Topology read_topology(const std::filesystem::path& file, const std::filesystem::path& devices);

}  // namespace tpplan
