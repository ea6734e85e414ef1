#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/workbench/settings.hpp"

namespace tpplan {

enum class Verb : std::uint8_t { plan, simulate, check, explain, topo, model, validate, list };
struct VerbSpec {
  std::string_view name;
  std::string_view positional;  // option that a bare argument sets; empty: none
  std::string_view text;
};
inline constexpr std::array<VerbSpec, 8> kVerbs{{
    {"plan", "", "find the best plans for a model on a cluster (the default)"},
    {"simulate", "plan", "one plan in depth: stages, memory, communication, timeline"},
    {"check", "plan", "is this plan legal, and does it fit"},
    {"explain", "plan", "where a plan's step time goes, and what each single change would give"},
    {"topo", "topology", "what was understood of a machine: bandwidths, routes, the weakest link"},
    {"model", "model", "parameters, FLOPs and activations by operator, legal tensor-parallel degrees"},
    {"validate", "folder", "predict measured training runs and report the errors"},
    {"list", "", "shipped models, topologies, devices and frameworks"},
}};

/// One option: from this table come the flags, --help, the keys of the experiment file and the reference
/// page.
struct OptionSpec {
  std::string_view name;      // "global-batch"
  std::string_view value;     // what is to be given, with its unit: "N tokens | N samples"; empty: a flag
  std::string_view standard;  // default, in words
  std::string_view text;
  std::uint32_t verbs = 0;    // bit by Verb
  bool in_experiment = true;  // may stand in an experiment file
  bool repeatable = false;
  /// Sets the option from its text. Throws std::invalid_argument with what would be right.
  void (*apply)(Settings&, std::string_view) = nullptr;

  [[nodiscard]] bool belongs_to(Verb verb) const { return (verbs >> static_cast<unsigned>(verb) & 1U) != 0; }
};

[[nodiscard]] std::span<const OptionSpec> option_table();

/// Sets every key of an experiment file. Lists are given as lists or as "a,b". Throws ConfigError with the
/// place.
void apply_experiment(const std::filesystem::path& file, Settings& settings);

/// The reference page docs/options.md.
[[nodiscard]] std::string options_markdown();

}  // namespace tpplan
