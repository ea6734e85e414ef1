#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/cli/render.hpp"
#include "planner/cli/table.hpp"
#include "planner/workbench/reasons.hpp"
#include "planner/workbench/workbench.hpp"

namespace tpplan {
namespace {

std::string memory_table(const MemoryReport& memory, bool bold) {
  std::vector<std::string> head{"memory"};
  for (std::size_t r = 0; r < memory.ranks.size(); ++r) head.push_back(fmt::format("rank {}", r));
  Table table(head);
  for (std::size_t c = 0; c < kMemoryCategoryNames.size(); ++c) {
    std::vector<std::string> row{std::string(kMemoryCategoryNames[c])};
    for (const StageMemory& rank : memory.ranks) row.push_back(to_string(rank.bytes[c]));
    table.add(row);
  }
  std::vector<std::string> total{"total"}, instant{"peak"};
  for (const StageMemory& rank : memory.ranks) {
    total.push_back(to_string(rank.total()));
    instant.push_back(rank.at_loss ? "at the loss" : "first backward");
  }
  table.add(total);
  table.add(instant);
  return table.text(bold);
}

std::string waterfall(const Breakdown& breakdown, Seconds step, bool bold) {
  Table table({"step time", "", "%", ""});
  for (const Term& term : breakdown_terms()) {
    const Seconds part = breakdown.*term.part;
    table.add({std::string(term.name), to_string(part), fmt::format("{:.1f}", 100 * (part / step)),
               std::string(static_cast<std::size_t>(std::max(0.0, 50 * (part / step))), '#')});
  }
  table.add({"total", to_string(step), "100.0", ""});
  return table.text(bold);
}

std::string stage_table(const SimulateReport& report, bool bold) {
  const ParallelPlan& plan = report.document.plan;
  Table table({"stage", "rank", "layers", "holds", "parameters", "forward", "backward", "rank busy %"});
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    const StageTimes& times = report.simulation.stages[i];
    const std::size_t rank = i % static_cast<std::size_t>(plan.pp);
    const double busy = report.simulation.rank_compute[rank] / report.simulation.step;
    const int last = stage.first_layer + stage.layers - 1;
    table.add({fmt::format("{}", i), fmt::format("{}", rank),
               stage.layers == 1 ? fmt::format("{}", last) : fmt::format("{}-{}", stage.first_layer, last),
               stage.embedding && stage.head ? "embedding, head"
               : stage.embedding             ? "embedding"
               : stage.head                  ? "head"
                                             : "",
               count_to_string(times.parameters), to_string(times.forward), to_string(times.backward),
               fmt::format("{:.1f}", 100 * busy)});
  }
  return table.text(bold) + "  (forward and backward of one micro-batch; parameters of one tensor rank)\n";
}

/// Busy time and bytes of each communication axis, per pipeline rank.
std::string communication_table(const SimulateReport& report, bool bold) {
  Table table({"communication", "busy on rank 0", "bytes a rank", "exposed"});
  const auto& tasks = report.simulation.graph->tasks();
  const auto row = [&](const char* name, auto matches, Seconds exposed) {
    Seconds busy{};
    Bytes bytes{};
    for (const Task& task : tasks)
      if (task.device == 0 && matches(task)) busy += task.duration, bytes += task.bytes;
    table.add({name, to_string(busy), to_string(bytes), to_string(exposed)});
  };
  const Breakdown& b = report.simulation.breakdown;
  table.add({"tensor parallel", "inside the stages",
             to_string(report.simulation.rank_tensor_parallel.front()), to_string(b.tensor_parallel)});
  row(
      "pipeline", [](const Task& t) { return t.kind == TaskKind::send; }, b.pipeline);
  row(
      "data parallel: reduce", [](const Task& t) { return t.kind == TaskKind::reduce; }, b.data_parallel);
  row(
      "data parallel: gather", [](const Task& t) { return t.kind == TaskKind::gather; }, Seconds{});
  return table.text(bold);
}

std::string violation_lines(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& v : violations)
    text +=
        fmt::format("  {}: {}; try {}\n", kRuleNames[static_cast<std::size_t>(v.rule)], v.message, v.remedy);
  return text;
}

std::string headline(const PlanDocument& document, const SimulationReport& report) {
  return fmt::format(
      "Plan     {}\nStep     {}: {:.0f} tokens/s, {:.0f} a GPU, MFU {:.1f} %, HFU {:.1f} %, peak memory {}\n",
      describe(document.plan), to_string(report.step), report.tokens_per_second,
      report.tokens_per_second / document.gpus, 100 * report.mfu, 100 * report.hfu,
      to_string(report.memory.peak()));
}

std::string not_legal(const Understood& understood, const std::vector<Violation>& violations) {
  return render_understood(understood) +
         fmt::format("The plan is not legal:\n{}", violation_lines(violations));
}

std::string memory_verdict(bool fits, Bytes limit) {
  return fits ? "" : fmt::format("It does not fit: {} may be used.\n", to_string(limit));
}

}  // namespace

std::string render(const SimulateReport& report, bool bold) {
  if (!report.violations.empty()) return not_legal(report.understood, report.violations);
  return render_understood(report.understood) + headline(report.document, report.simulation) +
         memory_verdict(report.fits, report.limit) + "\n" + stage_table(report, bold) + "\n" +
         memory_table(report.simulation.memory, bold) + "\n" + communication_table(report, bold) + "\n" +
         waterfall(report.simulation.breakdown, report.simulation.step, bold);
}

std::string render(const CheckReport& report, bool bold) {
  std::string text =
      render_understood(report.understood) + fmt::format("Plan     {}\n", describe(report.document.plan));
  text += report.violations.empty() ? "Legal, and it fits. No send waits for a receive that never comes.\n"
                                    : fmt::format("Broken rules:\n{}", violation_lines(report.violations));
  if (report.memory)
    text += fmt::format("{} may be used of each device.\n\n", to_string(report.limit)) +
            memory_table(*report.memory, bold);
  return text;
}

std::string render(const ExplainReport& report, bool bold) {
  if (!report.violations.empty()) return not_legal(report.understood, report.violations);
  std::string text = render_understood(report.understood) + headline(report.document, report.simulation) +
                     memory_verdict(report.fits, report.limit);
  if (!report.fits) {
    text += report.smallest_fit
                ? fmt::format("Smallest change that fits: {}; then {} ({:+.1f} %), {}\n",
                              report.smallest_fit->what, to_string(report.smallest_fit->report.step),
                              -100 * report.smallest_fit->gain,
                              to_string(report.smallest_fit->report.memory.peak()))
                : "No change of one or two settings fits.\n";
  }
  text += "\n" + waterfall(report.simulation.breakdown, report.simulation.step, bold) + "\n";
  Table table({"single change", "step", "step %", "peak mem", ""});
  for (const Change& change : report.changes)
    table.add({change.what, to_string(change.report.step), fmt::format("{:+.1f}", -100 * change.gain),
               to_string(change.report.memory.peak()), change.fits ? "" : "does not fit"});
  return text + table.text(bold);
}

std::string render(const TopologyReport& report, bool bold) {
  const Topology& t = report.topology;
  std::string text = fmt::format("{}: {} x {} {} ({})", t.name, t.nodes(), t.used_per_node, t.device.name,
                                 to_string(t.device.memory));
  text += t.nvlink_domain > 1 ? fmt::format(", NVLink islands of {}", t.nvlink_domain) : ", no NVLink";
  text += t.nics_per_node > 0
              ? fmt::format(", {} NICs of {} a machine\n", t.nics_per_node, to_string(t.fabric.nic_bandwidth))
              : ", no network\n";
  if (!t.source.empty()) text += fmt::format("source: {}\n", t.source);
  const std::size_t shown = std::min<std::size_t>(t.gpu_vertices.size(), 8);
  std::vector<std::string> head{"GB/s"};
  for (std::size_t g = 0; g < shown; ++g) head.push_back(t.node[t.gpu_vertices[g]].name);
  head.emplace_back("NIC");
  Table table(head);
  for (std::size_t a = 0; a < shown; ++a) {
    std::vector<std::string> row{t.node[t.gpu_vertices[a]].name};
    for (std::size_t b = 0; b < shown; ++b)
      row.push_back(
          a == b ? "X"
                 : fmt::format("{:.0f} {}", report.bandwidth[a][b].value() / 1e9, report.connection[a][b]));
    row.push_back(t.nic_of_gpu[a] >= 0 ? fmt::format("nic{}", t.nic_of_gpu[a]) : "none");
    table.add(row);
  }
  text += table.text(bold);
  if (shown < t.gpu_vertices.size()) text += fmt::format("  ... {} GPUs in all\n", t.gpu_vertices.size());
  if (!report.routes.empty()) text += "Routes:\n";
  for (std::size_t r = 0; r + 1 < shown; ++r) text += "  " + report.routes[r] + "\n";
  return text + fmt::format("Weakest link: {}\n", report.weakest);
}

std::string render(const ModelReport& report, bool bold) {
  const ModelSpec& m = report.model;
  const ParameterCount& c = report.count;
  std::string text =
      fmt::format("{} ({}): {} layers, hidden {}, {} heads of {}, {} KV heads, MLP {}{}, vocabulary {}{}\n",
                  m.name, m.family, m.layers, m.hidden, m.heads, m.head_dim, m.kv_heads, m.ffn,
                  m.gated_mlp ? " gated" : "", m.vocabulary, m.tied_embeddings ? ", tied embeddings" : "");
  text += fmt::format(
      "{} parameters: {} in {} layers, {} in embeddings and head\n{:.4g} FLOPs a token at sequence {} "
      "(forward and backward, full attention)\n\n",
      c.total(), c.layers * c.per_layer(), c.layers, c.embeddings(), report.flops_per_token, report.sequence);
  Table table({"operator", "kind", "split", "times", "parameters", "forward FLOPs", "activations"});
  for (const OperatorRow& row : report.operators)
    table.add({row.name, std::string(kOperatorKindNames[static_cast<std::size_t>(row.kind)]),
               std::string(kSplitNames[static_cast<std::size_t>(row.split)]), fmt::format("{}", row.repeats),
               count_to_string(row.parameters), count_to_string(row.forward_flops),
               to_string(Bytes{row.activation_bytes})});
  text +=
      table.text(bold) + "  (one micro-batch of one sample, tensor parallel 1, fused attention, 16 bit)\n\n";
  Table degrees({"tp", "legal", "why"});
  for (const TpDegree& d : report.degrees)
    degrees.add(
        {fmt::format("{}", d.tp), d.reason.empty() ? "yes" : "no", d.reason.empty() ? d.note : d.reason});
  return text + degrees.text(bold);
}

std::string render(const ValidationReport& report, bool bold) {
  Table table({"source", "runs", "timed", "predicted", "MAPE %", "median %", "bias %", "memory %",
               "OOM found", "OOM false", "regret %", "rank corr."});
  for (const auto& [name, a] : report.sources)
    table.add({name, fmt::format("{}", a.runs), fmt::format("{}", a.timed), fmt::format("{}", a.predicted),
               fmt::format("{:.1f}", 100 * a.mean_error), fmt::format("{:.1f}", 100 * a.median_error),
               fmt::format("{:+.1f}", 100 * a.bias),
               a.memory_runs > 0 ? fmt::format("{:.1f} ({})", 100 * a.memory_error, a.memory_runs) : "-",
               a.oom_runs > 0 ? fmt::format("{}/{}", a.oom_found, a.oom_runs) : "-",
               fmt::format("{}/{}", a.oom_false, a.fitting_runs),
               a.groups > 0 ? fmt::format("{:.1f} ({})", 100 * a.regret, a.groups) : "-",
               a.groups > 0 ? fmt::format("{:.2f}", a.rank_correlation) : "-"});
  std::string text = table.text(bold);
  text += fmt::format("macro MAPE of step time {:.2f} %, of memory {:.2f} %\n", 100 * report.macro_error,
                      100 * report.macro_memory_error);
  if (!report.worst.empty()) {
    text += "\n";
    Table worst({"worst", "error %", "dominant term"});
    for (const Outlier& o : report.worst)
      worst.add({o.id, fmt::format("{:+.1f}", 100 * o.error), o.dominant_term});
    text += worst.text(bold);
  }
  for (const auto& [substitution, count] : report.taken_as)
    text += fmt::format("\nnot known, in {} runs: {}\n", count, substitution);
  for (const auto& [reason, ids] : report.unmodelled) {
    text += fmt::format("\nnot predicted, {} ({}):\n", reason, ids.size());
    for (const std::string& id : ids) text += "  " + id + "\n";
  }
  return text;
}

std::string render(const ListReport& report, bool) {
  const auto line = [](const char* what, const std::vector<std::string>& names) {
    return fmt::format("{}\n  {}\n", what, fmt::join(names, "\n  "));
  };
  return line("models", report.models) + line("topologies", report.topologies) +
         line("devices", report.devices) + line("experiments", report.experiments) +
         line("frameworks", report.frameworks);
}

}  // namespace tpplan
