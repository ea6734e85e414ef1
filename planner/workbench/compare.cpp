#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <tuple>

#include "planner/workbench/workbench.hpp"
#include "simulator/calibration/calibrate.hpp"
#include "simulator/engine/trace.hpp"

namespace tpplan {
namespace {

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
  if (settings.runs.size() != 1) throw ConfigError("--run must be given once: the folder of a run");
  const std::filesystem::path folder = settings.runs.front();
  Settings own = settings;
  own.plan = (folder / "plan.yaml").string();
  CompareReport report{judge(own)};
  report.folder = folder.string();
  if (!report.violations.empty())
    throw ConfigError(fmt::format("{}: {}", own.plan, report.violations.front().message));
  const RecordedRun run = read_measurements(folder / "measurements.jsonl");
  const StepSummary measured = summarise(run.measurements);
  const Problem& problem = report.understood.problem;
  const SimulationReport simulation =
      simulate_plan(problem, *cost_model_of(report.understood, settings), report.document.plan, true);
  report.steps = measured.steps;
  report.ranks = run.environment.ranks;
  report.predicted_step = simulation.step;
  report.measured_step = measured.step;

  std::map<std::string, ComparedTask> kinds;
  std::vector<std::string> order;
  std::set<std::string> joined;
  for (std::size_t id = 0; id < simulation.graph->tasks().size(); ++id) {
    const Task& task = simulation.graph->tasks()[id];
    const Interval& ran = simulation.timeline->intervals[id];
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
    compared.predicted += ran.end - ran.start;
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
