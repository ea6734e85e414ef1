#pragma once

#include <string>

#include "simulator/document/document.hpp"
#include "simulator/plan/runtime_options.hpp"

namespace tpplan {

/// A `runtime:` map: `framework` names a profile, the other keys replace single options of it. Throws
/// ConfigError.
[[nodiscard]] RuntimeOptions runtime_from(const Value& value);

/// The map of `options` as indented lines below "runtime:", only what differs from the framework's profile.
[[nodiscard]] std::string runtime_to_yaml(const RuntimeOptions& options, int indent);

}  // namespace tpplan
