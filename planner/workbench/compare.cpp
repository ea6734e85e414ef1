#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <tuple>

#include "planner/workbench/workbench.hpp"
#include "simulator/calibration/measurement.hpp"
#include "simulator/engine/trace.hpp"

namespace tpplan {
namespace {

Seconds median(std::vector<Seconds> times) {
  if (times.empty()) return {};
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

/// Seconds of each label: the median over steps of what its ranks took. Ranks that compute differ by noise
/// and count by their median; of a collective the shortest counts, since the others waited for that rank.
struct Measured {
  std::map<std::string, Seconds> by_label;
  Seconds step;
  int steps = 0;
};

Measured summary_of(const std::vector<Measurement>& all) {
  std::map<std::pair<std::string, int>, std::vector<Seconds>> ranks;
  std::map<std::string, StreamKind> streams;
  std::map<int, std::pair<double, double>> spans;  // of steps: first start, last end
  for (const Measurement& m : all) {
    ranks[{m.label, m.step}].push_back(m.duration);
    streams[m.label] = m.stream;
    const double end = (m.start + m.duration).value();
    const auto [span, fresh] = spans.try_emplace(m.step, m.start.value(), end);
    if (fresh) continue;
    span->second.first = std::min(span->second.first, m.start.value());
    span->second.second = std::max(span->second.second, end);
  }
  // The first step allocates memory and makes primitives.
  const int first = spans.size() > 1 ? spans.begin()->first : -1;
  std::map<std::string, std::vector<Seconds>> steps;
  for (auto& [key, times] : ranks) {
    if (key.second == first) continue;
    const bool computes = streams.at(key.first) == StreamKind::compute;
    steps[key.first].push_back(computes ? median(times) : *std::min_element(times.begin(), times.end()));
  }
  Measured measured;
  for (auto& [label, times] : steps) measured.by_label[label] = median(std::move(times));
  std::vector<Seconds> lengths;
  for (const auto& [step, span] : spans)
    if (step != first) lengths.emplace_back(span.second - span.first);
  measured.steps = static_cast<int>(lengths.size());
  measured.step = median(std::move(lengths));
  return measured;
}

std::string kind_of(const Task& task) {
  switch (task.kind) {
    case TaskKind::forward:
      return fmt::format("s{} forward", task.stage);
    case TaskKind::backward:
      return fmt::format("s{} backward", task.stage);
    case TaskKind::send:
      return fmt::format("s{} send {}", task.stage, task.pass == Pass::forward ? "forward" : "backward");
    case TaskKind::reduce:
      return task.stream == StreamKind::pp ? "tied embedding sum"
                                           : fmt::format("s{} gradient reduction", task.stage);
    case TaskKind::gather:
      return fmt::format("s{} weight gather", task.stage);
    case TaskKind::optimizer:
      return fmt::format("s{} optimizer", task.stage);
    case TaskKind::norm:
      return "gradient norm";
    case TaskKind::fixed:
      return "end of step";
  }
  return {};
}

/// Both timelines in one Chrome trace: the predicted step and the last measured one, beginning together.
std::string both_traces(const CompareReport& report, const SimulationReport& simulation,
                        const std::vector<Measurement>& measurements) {
  std::string text = chrome_trace(report.document.plan, simulation, Bytes{});
  const std::size_t end = text.rfind(']');
  std::string more;
  int last = 0;
  double origin = 1e300;
  for (const Measurement& m : measurements) last = std::max(last, m.step);
  std::set<int> ranks;
  for (const Measurement& m : measurements)
    if (m.step == last) origin = std::min(origin, m.start.value()), ranks.insert(m.rank);
  constexpr int kMeasured = 1000;  // process numbers of measured ranks begin here
  for (const int rank : ranks)
    more += fmt::format(
        ",\n"
        R"({{"ph":"M","pid":{},"name":"process_name","args":{{"name":"measured rank {}"}}}})",
        kMeasured + rank, rank);
  for (const Measurement& m : measurements)
    if (m.step == last)
      more += fmt::format(
          ",\n"
          R"({{"ph":"X","pid":{},"tid":{},"name":"{}","ts":{:.3f},"dur":{:.3f},"args":{{"bytes":{:.0f}}}}})",
          kMeasured + m.rank, static_cast<int>(m.stream), m.label, 1e6 * (m.start.value() - origin),
          1e6 * m.duration.value(), m.bytes.value());
  return text.substr(0, end) + more + text.substr(end);
}

}  // namespace

CompareReport Workbench::compare(const Settings& settings) const {
  if (settings.run.empty()) throw ConfigError("--run is missing: the folder of a run");
  const std::filesystem::path folder = settings.run;
  Settings own = settings;
  own.plan = (folder / "plan.yaml").string();
  CompareReport report{judge(own)};
  report.folder = settings.run;
  if (!report.violations.empty())
    throw ConfigError(fmt::format("{}: {}", own.plan, report.violations.front().message));
  const RecordedRun run = read_measurements(folder / "measurements.jsonl");
  const Measured measured = summary_of(run.measurements);
  const Problem& problem = report.understood.problem;
  const SimulationReport simulation =
      simulate_plan(problem, cost_model_of(problem, settings), report.document.plan, true);
  report.steps = measured.steps;
  report.ranks = run.environment.ranks;
  report.predicted_step = simulation.step;
  report.measured_step = measured.step;

  std::map<std::string, ComparedTask> kinds;
  std::vector<std::string> order;
  std::set<std::string> joined;
  for (const Task& task : simulation.graph->tasks()) {
    const std::string name = label(task);
    const auto found = measured.by_label.find(name);
    if (found == measured.by_label.end()) {
      if (task.kind != TaskKind::fixed) report.only_predicted.push_back(name);
      continue;
    }
    joined.insert(name);
    const std::string what = kind_of(task);
    ComparedTask& compared = kinds[what];
    if (compared.count++ == 0) order.push_back(what);
    compared.what = what;
    compared.predicted += task.duration;
    compared.measured += found->second;
    compared.bytes += task.bytes;
  }
  for (const auto& [name, time] : measured.by_label)
    if (joined.count(name) == 0) report.only_measured.push_back(name);
  for (const std::string& what : order) report.tasks.push_back(kinds.at(what));
  if (!settings.trace.empty()) {
    write_file(settings.trace, both_traces(report, simulation, run.measurements));
    report.trace = settings.trace;
  }
  return report;
}

}  // namespace tpplan
