#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/plan/runtime_options.hpp"

namespace tpplan {

/// The documented defaults of a training framework of a certain date, by name ("megatron-core", "torchtitan",
/// ...). Nothing for an unknown name.
[[nodiscard]] std::optional<RuntimeOptions> runtime_profile(std::string_view name);

/// The name of the profile for software that has none of its own: the one with the longest common prefix of
/// at least four letters (the last of equals, which is the newest), "composer-fsdp" for other FSDP trainers,
/// or "megatron-core".
[[nodiscard]] std::string closest_profile_name(std::string_view name);

/// All names that runtime_profile knows, sorted.
[[nodiscard]] std::vector<std::string> runtime_profile_names();

}  // namespace tpplan
