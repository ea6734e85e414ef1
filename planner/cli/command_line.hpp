#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "planner/workbench/options.hpp"

namespace tpplan {

/// What the user asked for.
struct Command {
  Verb verb = Verb::plan;
  Settings settings;
  bool options_page = false;  // tpplan list --options
};

/// Text to print and leave with exit code 0: help or version.
struct Notice {
  std::string text;
};

/// Parses the arguments after the program's name. Without a verb the verb is plan. An experiment file (by
/// path, or a shipped one of the data files of `program`) is applied first, the command line over it. Throws
/// ConfigError for every mistake.
[[nodiscard]] std::variant<Command, Notice> parse_command_line(const std::vector<std::string>& arguments,
                                                               const std::filesystem::path& program);

}  // namespace tpplan
