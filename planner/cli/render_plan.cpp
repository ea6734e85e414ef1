#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/cli/render.hpp"
#include "planner/cli/table.hpp"
#include "planner/workbench/reasons.hpp"
#include "planner/workbench/workbench.hpp"

namespace tpplan {
namespace {

std::string percent(double share, int decimals = 1) { return fmt::format("{:.{}f}", 100 * share, decimals); }

/// 1234567 as "1,234,567".
std::string grouped(std::uint64_t number) {
  std::string text = fmt::format("{}", number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string plan_table(const PlanReport& report, bool bold) {
  Table table({"", "tp", "pp", "dp", "sp", "zero", "vpp", "mb", "recompute", "schedule", "step", "tokens/s",
               "per GPU", "MFU %", "HFU %", "peak mem", "of device %", "comm %", "bubble %"});
  const double gpus = report.understood.problem.topology.gpus;
  for (std::size_t i = 0; i < report.result.plans.size(); ++i) {
    const ParallelPlan& p = report.result.plans[i].plan;
    const SimulationReport& r = report.result.plans[i].report;
    table.add({fmt::format("{}", i + 1), fmt::format("{}", p.tp), fmt::format("{}", p.pp),
               fmt::format("{}", p.dp), p.sequence_parallel ? "on" : "off",
               fmt::format("{}", static_cast<int>(p.zero)), fmt::format("{}", p.vpp),
               fmt::format("{}", p.micro_batch),
               std::string(kRecomputeNames[static_cast<std::size_t>(p.recompute)]),
               std::string(kScheduleNames[static_cast<std::size_t>(p.schedule)]), to_string(r.step),
               grouped(static_cast<std::uint64_t>(r.tokens_per_second)),
               fmt::format("{:.0f}", r.tokens_per_second / gpus), percent(r.mfu), percent(r.hfu),
               to_string(r.memory.peak()),
               percent(r.memory.peak() / report.understood.problem.topology.device.memory),
               percent(r.breakdown.exposed_communication() / r.step), percent(r.breakdown.bubble / r.step)});
  }
  return table.text(bold);
}

std::string space_lines(const SearchResult& result) {
  std::string text = fmt::format("Space    {} combinations: ", grouped(result.space));
  std::uint64_t rejected = 0;
  for (const auto& [rule, count] : result.rejected) rejected += count;
  text += fmt::format("{} rejected, {} pruned by bound, {} simulated, in {}\n", grouped(rejected),
                      grouped(result.pruned), grouped(result.simulated), to_string(result.wall));
  std::vector<std::pair<std::uint64_t, Rule>> by_count;
  for (const auto& [rule, count] : result.rejected) by_count.emplace_back(count, rule);
  std::sort(by_count.begin(), by_count.end(), [](const auto& a, const auto& b) {
    return std::pair(b.first, a.second) < std::pair(a.first, b.second);
  });
  for (const auto& [count, rule] : by_count)
    text += fmt::format("         {:>11} {}: {}\n", grouped(count),
                        kRuleNames[static_cast<std::size_t>(rule)], result.examples.at(rule).message);
  return text;
}

}  // namespace

std::string render_understood(const Understood& u) {
  const Problem& p = u.problem;
  const ModelSpec& m = p.model;
  const ParameterCount count = count_parameters(m);
  const Topology& t = p.topology;
  std::string text = fmt::format(
      "Model    {}: {} layers, hidden {}, {} heads, {} KV heads, vocabulary {}: {} parameters ({} without "
      "embeddings)\n",
      m.name, m.layers, m.hidden, m.heads, m.kv_heads, m.vocabulary,
      count_to_string(static_cast<double>(count.total())),
      count_to_string(static_cast<double>(count.total() - count.embeddings())));
  const BytesPerSecond nic = t.fabric.nic_bandwidth;
  text += fmt::format("Cluster  {}: {} x {} x {} ({} each)", t.name, t.nodes(), t.used_per_node,
                      t.device.name, to_string(t.device.memory));
  text += t.nvlink_domain > 1 ? fmt::format(", NVLink islands of {}", t.nvlink_domain) : ", no NVLink";
  if (t.nodes() > 1) text += fmt::format(", {} NICs of {} a machine", t.nics_per_node, to_string(nic));
  text += fmt::format("\n         {}\n", u.placement);
  text += fmt::format(
      "Batch    {} samples of {} tokens = {} tokens a step, {}, {}\n", p.global_batch, p.sequence,
      grouped(static_cast<std::uint64_t>(p.global_batch) * static_cast<std::uint64_t>(p.sequence)),
      name(p.precision), p.runtime.framework);
  return text;
}

std::string render(const PlanReport& report, bool bold) {
  std::string text = render_understood(report.understood) + space_lines(report.result);
  if (!report.result.plans.empty()) {
    text += "\n" + plan_table(report, bold) + "\n";
    text += fmt::format("Best: {}\n", describe(report.result.plans.front().plan));
    for (const std::string& reason : report.reasons) text += "  " + reason + "\n";
    return text;
  }
  text += "\nNo plan fits.\n";
  if (const auto& nearest = report.result.nearest) {
    const MemoryReport& memory = nearest->report.memory;
    const Bytes limit = report.understood.problem.topology.device.memory * (1 - report.options.memory_margin);
    text += fmt::format(
        "The legal plan that needs the least memory: {}\n  needs {} on pipeline rank {}, {} may be used.\n",
        describe(nearest->plan), to_string(memory.peak()), memory.worst(), to_string(limit));
    const StageMemory& worst = memory.ranks[memory.worst()];
    for (std::size_t c = 0; c < kMemoryCategoryNames.size(); ++c)
      if (worst.bytes[c] > Bytes{0})
        text += fmt::format("  {:>10}  {}\n", to_string(worst.bytes[c]), kMemoryCategoryNames[c]);
    text += "  More GPUs, a smaller batch or sequence, or devices with more memory would help.\n";
  } else {
    text += "No combination is legal: every reason is counted above.\n";
  }
  return text;
}

}  // namespace tpplan
