#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/workbench/settings.hpp"

namespace tpplan {

enum class Verb : std::uint8_t {
  plan,
  simulate,
  check,
  explain,
  run,
  rehearse,
  verify,
  compare,
  probe,
  calibrate,
  tune,
  topo,
  model,
  validate,
  list
};
struct VerbSpec {
  std::string_view name;
  std::string_view positional;  // option that a bare argument sets; empty: none
  std::string_view text;
};
inline constexpr std::array<VerbSpec, 15> kVerbs{{
    {"plan", "", "find the best plans for a model on a cluster (the default)"},
    {"simulate", "plan", "one plan in depth: stages, memory, communication, timeline"},
    {"check", "plan", "is this plan legal, and does it fit"},
    {"explain", "plan", "where a plan's step time goes, and what each single change would give"},
    {"run", "plan", "train with a plan, on this machine or a cluster"},
    {"rehearse", "plan",
     "run a plan of any size here with the model shrunk: its groups, schedule and messages"},
    {"verify", "plan", "one step of a plan against one rank: loss, gradient norm, first tensor that differs"},
    {"compare", "run", "predicted against measured, task by task"},
    {"probe", "", "measure this machine, or the hosts given, and write its topology"},
    {"calibrate", "run", "fit the cost model to measured runs"},
    {"tune", "model", "probe, plan, run, calibrate and plan again until the choice is stable"},
    {"topo", "topology", "what was understood of a machine: bandwidths, routes, the weakest link"},
    {"model", "model", "parameters, FLOPs and activations by operator, legal tensor-parallel degrees"},
    {"validate", "folder", "predict measured training runs and report the errors"},
    {"list", "", "shipped models, topologies, devices, experiments and frameworks"},
}};

/// What an option takes: a form has one kind of field for each. `shipped` is a path or the name of a shipped
/// file.
enum class OptionKind : std::uint8_t {
  flag,
  integer,
  number,
  share,
  choice,
  batch,
  axis,
  shipped,
  file,
  folder
};

/// One option: from this table come the flags, --help, the keys of the experiment file, the reference page
/// and the fields of a form.
struct OptionSpec {
  std::string_view name;  // "global-batch"
  OptionKind kind = OptionKind::flag;
  std::string_view unit;                      // what an integer counts
  std::int64_t lowest = 0, highest = 0;       // of an integer or a number
  std::span<const std::string_view> choices;  // of a choice
  std::string_view standard;                  // default, in words
  std::string_view text;
  std::uint32_t verbs = 0;    // bit by Verb
  bool in_experiment = true;  // may stand in an experiment file
  bool repeatable = false;    // may be given several times
  bool list = false;          // takes several values with commas between
  /// Stores a text that set_option has checked.
  void (*store)(Settings&, std::string_view) = nullptr;

  [[nodiscard]] bool belongs_to(Verb verb) const { return (verbs >> static_cast<unsigned>(verb) & 1U) != 0; }
};

[[nodiscard]] constexpr std::uint32_t verb_bits(std::initializer_list<Verb> verbs) {
  std::uint32_t bits = 0;
  for (const Verb verb : verbs) bits |= 1U << static_cast<unsigned>(verb);
  return bits;
}

[[nodiscard]] std::span<const OptionSpec> option_table();

/// The option of that name; nullptr when there is none.
[[nodiscard]] const OptionSpec* find_option(std::string_view name);

/// Checks the text against kind, range and choices, and stores it. Throws std::invalid_argument with what
/// would be right.
void set_option(const OptionSpec& option, Settings& settings, std::string_view text);

/// What is to be given: "N", "bf16 | fp16 | fp32", "STAGE[,STAGE]"; empty for a flag.
[[nodiscard]] std::string value_form(const OptionSpec& option);

/// Which values are accepted: "1 to 1000", "0 to less than 1"; empty when the value form says it all.
[[nodiscard]] std::string range_text(const OptionSpec& option);

/// The reference page docs/options.md.
[[nodiscard]] std::string options_markdown();

}  // namespace tpplan
