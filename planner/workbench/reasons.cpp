#include "planner/workbench/reasons.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tpplan {
namespace {

/// The settings in which two plans differ: "tp 8 instead of 4, micro-batch 1 instead of 2".
std::string differences(const ParallelPlan& first, const ParallelPlan& other) {
  std::vector<std::string> parts;
  const auto number = [&](const char* name, auto a, auto b) {
    if (a != b) parts.push_back(fmt::format("{} {} instead of {}", name, b, a));
  };
  number("tp", first.tp, other.tp);
  number("pp", first.pp, other.pp);
  number("dp", first.dp, other.dp);
  if (first.sequence_parallel != other.sequence_parallel)
    parts.push_back(other.sequence_parallel ? "with sequence parallelism" : "without sequence parallelism");
  number("ZeRO", static_cast<int>(first.zero), static_cast<int>(other.zero));
  number("vpp", first.vpp, other.vpp);
  number("micro-batch", first.micro_batch, other.micro_batch);
  number("recompute", kRecomputeNames[static_cast<std::size_t>(first.recompute)],
         kRecomputeNames[static_cast<std::size_t>(other.recompute)]);
  number("schedule", kScheduleNames[static_cast<std::size_t>(first.schedule)],
         kScheduleNames[static_cast<std::size_t>(other.schedule)]);
  return parts.empty() ? "the same settings, placed otherwise" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

const std::vector<Term>& breakdown_terms() {
  static const std::vector<Term> terms{{"ideal compute", &Breakdown::ideal},
                                       {"matrix-product inefficiency", &Breakdown::product_loss},
                                       {"attention inefficiency", &Breakdown::attention_loss},
                                       {"memory-bound kernels", &Breakdown::memory_bound},
                                       {"host", &Breakdown::host},
                                       {"recompute", &Breakdown::recompute},
                                       {"tensor-parallel communication", &Breakdown::tensor_parallel},
                                       {"pipeline transfers", &Breakdown::pipeline},
                                       {"data-parallel communication", &Breakdown::data_parallel},
                                       {"pipeline bubble", &Breakdown::bubble},
                                       {"optimizer", &Breakdown::optimizer},
                                       {"fixed work and stragglers", &Breakdown::other}};
  return terms;
}

std::vector<std::string> reasons(const std::vector<RankedPlan>& plans, std::size_t alternatives) {
  std::vector<std::string> lines;
  for (std::size_t i = 1; i < plans.size() && i <= alternatives; ++i) {
    const SimulationReport& first = plans.front().report;
    const SimulationReport& other = plans[i].report;
    std::vector<std::pair<double, std::string_view>> changes;
    for (const Term& term : breakdown_terms())
      changes.emplace_back((other.breakdown.*term.part - first.breakdown.*term.part).value(), term.name);
    std::stable_sort(changes.begin(), changes.end(),
                     [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });
    std::vector<std::string> words;
    for (std::size_t k = 0; k < 3 && k < changes.size(); ++k)
      if (std::abs(changes[k].first) > 0.0005 * first.step.value())
        words.push_back(fmt::format("{}{} {}", changes[k].first > 0 ? "+" : "-",
                                    to_string(Seconds{std::abs(changes[k].first)}), changes[k].second));
    lines.push_back(
        fmt::format("#{} ({}) is {:.2f} % slower: {}", i + 1, differences(plans.front().plan, plans[i].plan),
                    100 * (other.step / first.step - 1),
                    words.empty() ? "no single term stands out" : fmt::format("{}", fmt::join(words, ", "))));
  }
  return lines;
}

}  // namespace tpplan
