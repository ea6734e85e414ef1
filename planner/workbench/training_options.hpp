#pragma once

#include <vector>

#include "planner/workbench/options.hpp"

namespace tpplan {

/// The part of the option table that belongs to running a plan.
[[nodiscard]] std::vector<OptionSpec> training_option_table();

}  // namespace tpplan
