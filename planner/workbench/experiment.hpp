#pragma once

#include <filesystem>

#include "planner/workbench/settings.hpp"

namespace tpplan {

/// Sets every key of an experiment file through the option table. A list is given as a list or as "a,b", and
/// `fix` also as a map from axis to value. Throws ConfigError with the place.
void apply_experiment(const std::filesystem::path& file, Settings& settings);

}  // namespace tpplan
