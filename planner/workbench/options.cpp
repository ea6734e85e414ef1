#include "planner/workbench/options.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdexcept>

#include "planner/workbench/option_values.hpp"
#include "planner/workbench/training_options.hpp"
#include "simulator/document/document.hpp"
#include "simulator/plan/runtime_profiles.hpp"

namespace tpplan {
namespace {

constexpr std::array<std::string_view, 3> kColorNames{"auto", "always", "never"};
constexpr std::array<std::string_view, 3> kTrainingPrecisions{"bf16", "fp16", "fp32"};
constexpr int kMost = 1 << 24;

/// "tp=8": holds one axis of the space at one value, or at a list of values.
void hold_axis(Settings& s, std::string_view text) {
  struct Axis {
    std::string_view name;
    std::vector<int> SearchOptions::*degrees;
    std::span<const std::string_view> choices;
    void (*store)(SearchOptions&, std::string_view);
  };
  using O = SearchOptions&;
  using T = std::string_view;
  static const std::array<Axis, 9> axes{{
      {"tp", &SearchOptions::tp, {}, nullptr},
      {"pp", &SearchOptions::pp, {}, nullptr},
      {"dp", &SearchOptions::dp, {}, nullptr},
      {"vpp", &SearchOptions::vpp, {}, nullptr},
      {"mb", &SearchOptions::micro_batch, {}, nullptr},
      {"sp", nullptr, kTruthNames,
       [](O o, T t) {
         o.sequence_parallel.clear();
         for (const T part : parts_of(t)) o.sequence_parallel.push_back(truth(part));
       }},
      {"zero", nullptr, kZeroNames, [](O o, T t) { o.zero = all_chosen<ZeroStage>(kZeroNames, t); }},
      {"recompute", nullptr, kRecomputeNames,
       [](O o, T t) { o.recompute = all_chosen<Recompute>(kRecomputeNames, t); }},
      {"schedule", nullptr, kScheduleNames,
       [](O o, T t) { o.schedule = all_chosen<ScheduleKind>(kScheduleNames, t); }},
  }};
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  const auto* axis = std::find_if(axes.begin(), axes.end(), [&](const Axis& a) { return a.name == name; });
  if (axis == axes.end() || equals == std::string_view::npos) {
    std::vector<std::string> names;
    for (const Axis& a : axes) names.emplace_back(a.name);
    throw std::invalid_argument(fmt::format("'{}' must be axis=value, such as tp=8, with an axis of {}{}",
                                            text, fmt::join(names, ", "),
                                            axis == axes.end() ? did_you_mean(name, names) : ""));
  }
  const std::string_view values = text.substr(equals + 1);
  for (const std::string_view part : parts_of(values))
    axis->degrees != nullptr ? check_integer(part, 1, kMost) : check_choice(part, axis->choices);
  if (axis->degrees == nullptr) return axis->store(s.search, values);
  std::vector<int>& degrees = s.search.*axis->degrees;
  degrees.clear();
  for (const std::string_view part : parts_of(values)) degrees.push_back(tpplan::number(part));
}

/// Names of frameworks as a span that lives as long as the program.
std::span<const std::string_view> framework_names() {
  static const std::vector<std::string> names = runtime_profile_names();
  static const std::vector<std::string_view> views(names.begin(), names.end());
  return views;
}

/// One value of an option, or each of a list.
void check(const OptionSpec& option, std::string_view text) {
  switch (option.kind) {
    case OptionKind::flag:
      return check_choice(text, kTruthNames);
    case OptionKind::integer:
      return check_integer(text, option.lowest, option.highest);
    case OptionKind::number:
      return check_number(text, static_cast<double>(option.lowest), static_cast<double>(option.highest));
    case OptionKind::share:
      return check_share(text);
    case OptionKind::choice:
      return check_choice(text, option.choices);
    case OptionKind::batch:  // parse_batch and hold_axis check as they store
    case OptionKind::axis:
    case OptionKind::shipped:
    case OptionKind::file:
    case OptionKind::folder:
      return;
  }
}

constexpr std::uint32_t kEvery = 0xffffffff;
constexpr auto of = verb_bits;
constexpr std::uint32_t kPlan = of({Verb::plan, Verb::tune});
constexpr std::uint32_t kOfPlan =
    of({Verb::simulate, Verb::check, Verb::explain, Verb::run, Verb::rehearse, Verb::verify});
constexpr std::uint32_t kProblem = kPlan | kOfPlan | of({Verb::compare});

using S = Settings&;
using T = std::string_view;
using enum OptionKind;

std::vector<OptionSpec> make_table() {
  return {
      {.name = "model",
       .kind = shipped,
       .standard = "required by plan and model",
       .text = "our YAML, a Hugging Face config.json, or a shipped model",
       .verbs = kProblem | of({Verb::model, Verb::probe}),
       .store = [](S s, T t) { s.model = t; }},
      {.name = "gpus",
       .kind = integer,
       .unit = "devices",
       .lowest = 1,
       .highest = kMost,
       .standard = "required by plan; one node for topo",
       .text = "devices to use",
       .verbs = kProblem | of({Verb::topo}),
       .store = [](S s, T t) { s.gpus = tpplan::number(t); }},
      {.name = "topology",
       .kind = shipped,
       .standard = "dgx-a100-80g",
       .text = "machine file or a shipped topology",
       .verbs = kProblem | of({Verb::topo}),
       .store = [](S s, T t) { s.topology = t; }},
      {.name = "global-batch",
       .kind = batch,
       .standard = "the model's, or 4M tokens",
       .text = "batch of an optimizer step; k and M are 2^10 and 2^20",
       .verbs = kPlan,
       .store = [](S s, T t) { s.global_batch = parse_batch(t); }},
      {.name = "seq",
       .kind = integer,
       .unit = "tokens",
       .lowest = 1,
       .highest = 1'000'000'000,
       .standard = "the model's; for a config.json at most 4096",
       .text = "tokens of a training sample",
       .verbs = kPlan | of({Verb::model, Verb::probe}),
       .store = [](S s, T t) { s.sequence = tpplan::number(t); }},
      {.name = "precision",
       .kind = choice,
       .choices = kTrainingPrecisions,
       .standard = "bf16",
       .text = "number format of weights, activations and matrix products",
       .verbs = kPlan,
       .store = [](S s, T t) { s.precision = chosen<Precision>(kPrecisionNames, t); }},
      {.name = "fix",
       .kind = axis,
       .standard = "nothing fixed",
       .text = "hold an axis of the space: tp, pp, dp, vpp, mb (micro-batch), sp (true, false), zero, "
               "recompute, schedule",
       .verbs = kPlan,
       .repeatable = true,
       .store = hold_axis},
      {.name = "max-tp",
       .kind = integer,
       .unit = "ranks",
       .lowest = 1,
       .highest = kMost,
       .standard = "the NVLink domain, or without NVLink the machine",
       .text = "largest tensor-parallel degree; above that on purpose",
       .verbs = kProblem | of({Verb::calibrate}),
       .store = [](S s, T t) { s.max_tp = tpplan::number(t); }},
      {.name = "zero",
       .kind = choice,
       .choices = kZeroNames,
       .standard = "all",
       .text = "ZeRO stages to consider",
       .verbs = kPlan,
       .list = true,
       .store = [](S s, T t) { s.search.zero = all_chosen<ZeroStage>(kZeroNames, t); }},
      {.name = "schedule",
       .kind = choice,
       .choices = kScheduleNames,
       .standard = "all",
       .text = "pipeline schedules to consider",
       .verbs = kPlan,
       .list = true,
       .store = [](S s, T t) { s.search.schedule = all_chosen<ScheduleKind>(kScheduleNames, t); }},
      {.name = "recompute",
       .kind = choice,
       .choices = kRecomputeNames,
       .standard = "all",
       .text = "activation recomputation to consider",
       .verbs = kPlan,
       .list = true,
       .store = [](S s, T t) { s.search.recompute = all_chosen<Recompute>(kRecomputeNames, t); }},
      {.name = "memory-margin",
       .kind = share,
       .unit = "of device memory",
       .standard = "0.05",
       .text = "share of device memory that must stay free",
       .verbs = kProblem,
       .store = [](S s, T t) { s.search.memory_margin = share_of(t).value(); }},
      {.name = "objective",
       .kind = choice,
       .choices = kObjectiveNames,
       .standard = "throughput",
       .text = "what the ranking is by",
       .verbs = kPlan,
       .store = [](S s, T t) { s.search.objective = chosen<Objective>(kObjectiveNames, t); }},
      {.name = "top",
       .kind = integer,
       .unit = "plans",
       .lowest = 1,
       .highest = 1000,
       .standard = "10",
       .text = "plans to show",
       .verbs = kPlan,
       .store = [](S s, T t) { s.search.top = tpplan::number(t); }},
      {.name = "framework",
       .kind = choice,
       .choices = framework_names(),
       .standard = "megatron-core",
       .text = "whose kernels, overlaps and formats to assume",
       .verbs = kPlan,
       .store = [](S s, T t) { s.framework = t; }},
      {.name = "nccl-algorithm",
       .kind = choice,
       .choices = kAlgorithmNames,
       .standard = "auto",
       .text = "force the algorithm of collectives",
       .verbs = kProblem,
       .store = [](S s, T t) { s.algorithm = chosen<CollectiveAlgorithm>(kAlgorithmNames, t); }},
      {.name = "causal-flops",
       .kind = flag,
       .standard = "off: the full square, as in PaLM",
       .text = "count half of the attention square in MFU and HFU",
       .verbs = kProblem,
       .store = [](S s, T t) { s.causal_flops = truth(t); }},
      {.name = "threads",
       .kind = integer,
       .unit = "threads",
       .lowest = 1,
       .highest = 1024,
       .standard = "all of the machine's",
       .text = "threads of the search",
       .verbs = kPlan,
       .store = [](S s, T t) { s.search.threads = tpplan::number(t); }},
      {.name = "experiment",
       .kind = shipped,
       .standard = "none",
       .text = "YAML with any of these settings, or a shipped experiment; the command line wins",
       .verbs = kPlan,
       .in_experiment = false,
       .store = [](S s, T t) { s.experiment = t; }},
      {.name = "plan",
       .kind = file,
       .standard = "required",
       .text = "a plan.yaml",
       .verbs = kOfPlan,
       .in_experiment = false,
       .store = [](S s, T t) { s.plan = t; }},
      {.name = "output",
       .kind = file,
       .standard = "plan.yaml, topology.yaml or calibration.yaml; validate: none",
       .text = "where to write the plan, the topology or the calibration; validate: the predictions as JSON",
       .verbs = kPlan | of({Verb::validate, Verb::probe, Verb::calibrate}),
       .store = [](S s, T t) { s.output = t; }},
      {.name = "trace",
       .kind = file,
       .standard = "none",
       .text = "write the step's timeline as a Chrome trace (Perfetto)",
       .verbs = of({Verb::simulate, Verb::compare}),
       .in_experiment = false,
       .store = [](S s, T t) { s.trace = t; }},
      {.name = "dot",
       .kind = flag,
       .standard = "off",
       .text = "print the node as a Graphviz graph",
       .verbs = of({Verb::topo}),
       .in_experiment = false,
       .store = [](S s, T t) { s.dot = truth(t); }},
      {.name = "folder",
       .kind = folder,
       .standard = "required",
       .text = "folder of measured runs",
       .verbs = of({Verb::validate}),
       .in_experiment = false,
       .store = [](S s, T t) { s.folder = t; }},
      {.name = "dense",
       .kind = flag,
       .standard = "off",
       .text = "only dense models without context parallelism, in bf16 or fp16",
       .verbs = of({Verb::validate}),
       .in_experiment = false,
       .store = [](S s, T t) { s.dense = truth(t); }},
      {.name = "all",
       .kind = flag,
       .standard = "off",
       .text = "also runs that had to assume micro-batch, recompute, heads, vpp or precision",
       .verbs = of({Verb::validate}),
       .in_experiment = false,
       .store = [](S s, T t) { s.include_vague = truth(t); }},
      {.name = "worst",
       .kind = integer,
       .unit = "runs",
       .lowest = 0,
       .highest = 10'000,
       .standard = "10",
       .text = "worst predictions to list",
       .verbs = of({Verb::validate}),
       .in_experiment = false,
       .store = [](S s, T t) { s.worst = tpplan::number(t); }},
      {.name = "json",
       .kind = flag,
       .standard = "off",
       .text = "print one JSON document",
       .verbs = kEvery,
       .in_experiment = false,
       .store = [](S s, T t) { s.json = truth(t); }},
      {.name = "color",
       .kind = choice,
       .choices = kColorNames,
       .standard = "auto: on a terminal",
       .text = "colour in tables",
       .verbs = kEvery,
       .in_experiment = false,
       .store = [](S s, T t) { s.color = chosen<Color>(kColorNames, t); }},
  };
}

}  // namespace

std::span<const OptionSpec> option_table() {
  static const std::vector<OptionSpec> table = [] {
    std::vector<OptionSpec> all = make_table();
    const std::vector<OptionSpec> training = training_option_table();
    const auto common =
        std::find_if(all.begin(), all.end(), [](const OptionSpec& o) { return o.name == "json"; });
    all.insert(common, training.begin(), training.end());
    return all;
  }();
  return table;
}

const OptionSpec* find_option(std::string_view name) {
  for (const OptionSpec& option : option_table())
    if (option.name == name) return &option;
  return nullptr;
}

void set_option(const OptionSpec& option, Settings& settings, std::string_view text) {
  if (option.list)
    for (const std::string_view part : parts_of(text)) check(option, part);
  else
    check(option, text);
  option.store(settings, text);
}

std::string value_form(const OptionSpec& option) {
  switch (option.kind) {
    case OptionKind::flag:
      return "";
    case OptionKind::integer:
      return "N";
    case OptionKind::number:
      return "NUMBER";
    case OptionKind::share:
      return "SHARE";
    case OptionKind::choice:
      return fmt::format("{}{}", fmt::join(option.choices, " | "), option.list ? " [, ...]" : "");
    case OptionKind::batch:
      return "\"N tokens\" | \"N samples\"";
    case OptionKind::axis:
      return "AXIS=VALUE[,VALUE]";
    case OptionKind::shipped:
      return "FILE | NAME";
    case OptionKind::file:
      return "FILE";
    case OptionKind::folder:
      return "DIR";
  }
  return "";
}

std::string range_text(const OptionSpec& option) {
  if (option.kind == OptionKind::share) return fmt::format("0 to less than 1 {}", option.unit);
  if (option.kind != OptionKind::integer && option.kind != OptionKind::number) return "";
  return fmt::format("{} to {} {}", option.lowest, option.highest, option.unit);
}

}  // namespace tpplan
