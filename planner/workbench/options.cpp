#include "planner/workbench/options.hpp"

#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdexcept>

#include "simulator/document/document.hpp"
#include "simulator/plan/runtime_profiles.hpp"

namespace tpplan {
namespace {

[[noreturn]] void fail(std::string_view text, const std::string& right) {
  throw std::invalid_argument(fmt::format("'{}' must be {}", text, right));
}

int integer(std::string_view text, int lowest, int highest) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number < lowest || number > highest)
    fail(text, fmt::format("a whole number from {} to {}", lowest, highest));
  return number;
}

double share(std::string_view text) {
  double number = 0;
  const bool percent = text.ends_with('%');
  const std::string_view digits = percent ? text.substr(0, text.size() - 1) : text;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (percent) number /= 100;
  if (error != std::errc{} || end != digits.data() + digits.size() || !(number >= 0 && number < 1))
    fail(text, "a share from 0 to less than 1, such as 0.05 or 5%");
  return number;
}

template <class Enum, std::size_t N>
Enum choice(std::string_view text, const std::array<std::string_view, N>& names) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == text) return static_cast<Enum>(i);
  const std::vector<std::string> candidates(names.begin(), names.end());
  fail(text, fmt::format("one of {}{}", fmt::join(names, ", "), did_you_mean(text, candidates)));
}

bool truth(std::string_view text) {
  if (text == "true" || text == "on" || text == "yes") return true;
  if (text == "false" || text == "off" || text == "no") return false;
  fail(text, "true or false");
}

/// "a,b,c": every part through `read`.
template <class Read>
auto list(std::string_view text, Read read) {
  std::vector<decltype(read(text))> values;
  while (true) {
    const std::size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    values.push_back(read(part));
    if (comma == std::string_view::npos) return values;
    text.remove_prefix(comma + 1);
  }
}

constexpr int kMost = 1 << 24;

int degree(std::string_view text) { return integer(text, 1, kMost); }
ZeroStage zero_stage(std::string_view text) { return static_cast<ZeroStage>(integer(text, 0, 3)); }
ScheduleKind schedule(std::string_view text) { return choice<ScheduleKind>(text, kScheduleNames); }
Recompute recompute(std::string_view text) { return choice<Recompute>(text, kRecomputeNames); }

/// "tp=8": holds one axis of the space at one value, or at a list of values.
void fix(Settings& s, std::string_view text) {
  const std::size_t equals = text.find('=');
  const std::string_view axis = text.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : text.substr(equals + 1);
  SearchOptions& o = s.search;
  if (axis == "tp")
    o.tp = list(value, degree);
  else if (axis == "pp")
    o.pp = list(value, degree);
  else if (axis == "dp")
    o.dp = list(value, degree);
  else if (axis == "vpp")
    o.vpp = list(value, degree);
  else if (axis == "mb")
    o.micro_batch = list(value, degree);
  else if (axis == "sp")
    o.sequence_parallel = list(value, truth);
  else if (axis == "zero")
    o.zero = list(value, zero_stage);
  else if (axis == "recompute")
    o.recompute = list(value, recompute);
  else if (axis == "schedule")
    o.schedule = list(value, schedule);
  else {
    const std::vector<std::string> axes{"tp", "pp", "dp", "vpp", "mb", "sp", "zero", "recompute", "schedule"};
    fail(text,
         fmt::format("axis=value with an axis of {}{}", fmt::join(axes, ", "), did_you_mean(axis, axes)));
  }
}

constexpr std::uint32_t of(std::initializer_list<Verb> verbs) {
  std::uint32_t bits = 0;
  for (const Verb verb : verbs) bits |= 1U << static_cast<unsigned>(verb);
  return bits;
}
constexpr std::uint32_t kEvery = 0xff;
constexpr std::uint32_t kPlan = of({Verb::plan});
constexpr std::uint32_t kOfPlan = of({Verb::simulate, Verb::check, Verb::explain});
constexpr std::uint32_t kProblem = kPlan | kOfPlan;

using S = Settings&;
using T = std::string_view;

const std::array kTable{
    OptionSpec{"model", "FILE | NAME", "required by plan and model",
               "our YAML, a Hugging Face config.json, or a shipped model", kProblem | of({Verb::model}), true,
               false, [](S s, T t) { s.model = t; }},
    OptionSpec{"gpus", "N", "required by plan; one node for topo", "devices to use, 1 to 16777216",
               kProblem | of({Verb::topo}), true, false, [](S s, T t) { s.gpus = integer(t, 1, kMost); }},
    OptionSpec{"topology", "FILE | NAME", "dgx-a100-80g", "machine file or a shipped topology",
               kProblem | of({Verb::topo}), true, false, [](S s, T t) { s.topology = t; }},
    OptionSpec{"global-batch", "\"N tokens\" | \"N samples\"", "the model's, or 4M tokens",
               "batch of an optimizer step; k and M are 2^10 and 2^20", kPlan, true, false,
               [](S s, T t) { s.global_batch = parse_batch(t); }},
    OptionSpec{"seq", "TOKENS", "the model's; for a config.json at most 4096",
               "tokens of a training sample, 1 to 1e9", kPlan | of({Verb::model}), true, false,
               [](S s, T t) { s.sequence = integer(t, 1, 1'000'000'000); }},
    OptionSpec{"precision", "bf16 | fp16 | fp32", "bf16",
               "number format of weights, activations and matrix products", kPlan, true, false,
               [](S s, T t) { s.precision = choice<Precision>(t, kPrecisionNames); }},
    OptionSpec{"fix", "AXIS=VALUE[,VALUE]", "nothing fixed",
               "hold an axis of the space: tp, pp, dp, vpp, mb (micro-batch), sp (true, false), zero, "
               "recompute, schedule",
               kPlan, true, true, fix},
    OptionSpec{"max-tp", "N", "the NVLink domain",
               "largest tensor-parallel degree; above the NVLink domain on purpose", kProblem, true, false,
               [](S s, T t) { s.max_tp = degree(t); }},
    OptionSpec{"zero", "STAGE[,STAGE]", "0,1,2,3", "ZeRO stages to consider", kPlan, true, false,
               [](S s, T t) { s.search.zero = list(t, zero_stage); }},
    OptionSpec{"schedule", "gpipe | 1f1b | interleaved [, ...]", "all", "pipeline schedules to consider",
               kPlan, true, false, [](S s, T t) { s.search.schedule = list(t, schedule); }},
    OptionSpec{"recompute", "none | selective | full [, ...]", "all", "activation recomputation to consider",
               kPlan, true, false, [](S s, T t) { s.search.recompute = list(t, recompute); }},
    OptionSpec{"memory-margin", "SHARE", "0.05", "share of device memory that must stay free, 0 to 1",
               kProblem, true, false, [](S s, T t) { s.search.memory_margin = share(t); }},
    OptionSpec{"objective", "throughput | memory", "throughput", "what the ranking is by", kPlan, true, false,
               [](S s, T t) { s.search.objective = choice<Objective>(t, kObjectiveNames); }},
    OptionSpec{"top", "N", "10", "plans to show, 1 to 1000", kPlan, true, false,
               [](S s, T t) { s.search.top = integer(t, 1, 1000); }},
    OptionSpec{"framework", "NAME", "megatron-core",
               "whose kernels, overlaps and formats to assume (tpplan list)", kPlan, true, false,
               [](S s, T t) {
                 if (!runtime_profile(t))
                   fail(t, fmt::format("one of {}{}", fmt::join(runtime_profile_names(), ", "),
                                       did_you_mean(t, runtime_profile_names())));
                 s.framework = t;
               }},
    OptionSpec{"nccl-algorithm", "auto | ring | tree | hierarchical | nvls", "auto",
               "force the algorithm of collectives", kProblem, true, false,
               [](S s, T t) { s.algorithm = choice<CollectiveAlgorithm>(t, kAlgorithmNames); }},
    OptionSpec{"causal-flops", "", "off: the full square, as in PaLM",
               "count half of the attention square in MFU and HFU", kProblem, true, false,
               [](S s, T t) { s.causal_flops = truth(t); }},
    OptionSpec{"threads", "N", "all of the machine's", "threads of the search, 1 to 1024", kPlan, true, false,
               [](S s, T t) { s.search.threads = integer(t, 1, 1024); }},
    OptionSpec{"experiment", "FILE", "none", "YAML with any of these settings; the command line wins", kPlan,
               false, false, [](S s, T t) { s.experiment = t; }},
    OptionSpec{"plan", "FILE", "required", "a plan.yaml", kOfPlan, false, false,
               [](S s, T t) { s.plan = t; }},
    OptionSpec{"output", "FILE", "plan: plan.yaml; validate: none",
               "where to write the plan, or the predictions as JSON", kPlan | of({Verb::validate}), true,
               false, [](S s, T t) { s.output = t; }},
    OptionSpec{"trace", "FILE", "none", "write the step's timeline as a Chrome trace (Perfetto)",
               of({Verb::simulate}), false, false, [](S s, T t) { s.trace = t; }},
    OptionSpec{"dot", "", "off", "print the node as a Graphviz graph", of({Verb::topo}), false, false,
               [](S s, T t) { s.dot = truth(t); }},
    OptionSpec{"folder", "DIR", "required", "folder of measured runs", of({Verb::validate}), false, false,
               [](S s, T t) { s.folder = t; }},
    OptionSpec{"dense", "", "off", "only dense models without context parallelism, in bf16 or fp16",
               of({Verb::validate}), false, false, [](S s, T t) { s.dense = truth(t); }},
    OptionSpec{"all", "", "off",
               "also runs that had to assume micro-batch, recompute, heads, vpp or precision",
               of({Verb::validate}), false, false, [](S s, T t) { s.include_vague = truth(t); }},
    OptionSpec{"worst", "N", "10", "worst predictions to list, 0 to 10000", of({Verb::validate}), false,
               false, [](S s, T t) { s.worst = integer(t, 0, 10'000); }},
    OptionSpec{"json", "", "off", "print one JSON document", kEvery, false, false,
               [](S s, T t) { s.json = truth(t); }},
    OptionSpec{"color", "auto | always | never", "auto: on a terminal", "colour in tables", kEvery, false,
               false,
               [](S s, T t) {
                 constexpr std::array<std::string_view, 3> names{"auto", "always", "never"};
                 s.color = choice<Color>(t, names);
               }},
};

}  // namespace

std::span<const OptionSpec> option_table() { return kTable; }

void apply_experiment(const std::filesystem::path& file, Settings& settings) {
  const Value document = read_document(file);
  MapReader map = document.map();
  for (const OptionSpec& option : option_table()) {
    if (!option.in_experiment) continue;
    const auto value = map.optional(std::string(option.name));
    if (!value) continue;
    const auto apply = [&](const Value& place, const std::string& text) {
      try {
        option.apply(settings, text);
      } catch (const std::invalid_argument& error) {
        place.fail(error.what());
      }
    };
    if (value->is_map()) {
      MapReader axes = value->map();
      for (const std::string& axis : axes.keys()) {
        const Value held = axes.required(axis);
        std::string text;
        if (held.is_list())
          for (const Value& item : held.list()) text += (text.empty() ? "" : ",") + item.text();
        else
          text = held.text();
        apply(held, axis + "=" + text);
      }
    } else if (value->is_list()) {
      std::string text;
      for (const Value& item : value->list()) {
        if (option.repeatable)
          apply(item, item.text());
        else
          text += (text.empty() ? "" : ",") + item.text();
      }
      if (!option.repeatable) apply(*value, text);
    } else {
      apply(*value, value->text());
    }
  }
  map.finish();
}

std::string options_markdown() {
  std::string text =
      "# Options\n\nWritten by `tpplan list --options`; the flags, `--help` and the keys of an experiment "
      "file come from the "
      "same table.\nKeys of an experiment file are the names without dashes in front: `global-batch: 4194304 "
      "tokens`, "
      "`fix: {tp: 8}`.\n";
  for (std::size_t v = 0; v < kVerbs.size(); ++v) {
    text += fmt::format(
        "\n## tpplan {}\n\n{}.\n\n| option | value | default | meaning | experiment "
        "|\n|---|---|---|---|---|\n",
        kVerbs[v].name, kVerbs[v].text);
    for (const OptionSpec& option : option_table()) {
      if (!option.belongs_to(static_cast<Verb>(v))) continue;
      std::string value(option.value);
      for (std::size_t at = value.find('|'); at != std::string::npos; at = value.find('|', at + 2))
        value.insert(at, "\\");
      text += fmt::format("| `--{}`{} | {} | {} | {} | {} |\n", option.name,
                          option.repeatable ? " (repeatable)" : "", value, option.standard, option.text,
                          option.in_experiment ? "yes" : "no");
    }
  }
  return text;
}

}  // namespace tpplan
