#include "simulator/calibration/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "simulator/calibration/fit.hpp"
#include "simulator/units/median.hpp"

namespace tpplan {
namespace {

constexpr int kRounds = 4;
constexpr double kPull = 0.05;     // toward the uncalibrated model, of fit_non_negative
constexpr double kNothing = 1e-6;  // a factor so small that its work takes no time, yet stays in the graph

SimulationReport simulated(const CalibrationRun& run, const Calibration& calibration, bool timeline) {
  Problem problem = run.problem;
  problem.runtime.fixed_per_step = calibration.fixed_per_step;
  const CalibratedCostModel model(problem.topology.device, CollectiveAlgorithm::automatic, calibration);
  return simulate_plan(problem, model, run.plan, timeline);
}

/// One kind of work of one run: measured seconds, and what each factor adds to the prediction.
struct Row {
  double measured = 0;
  Factors parts{};
};

std::vector<Row> rows_of(const CalibrationRun& run, const Calibration& current) {
  const SimulationReport now = simulated(run, current, true);
  std::array<SimulationReport, kFactorNames.size()> alone;
  for (std::size_t f = 0; f < alone.size(); ++f) {
    Calibration only = current;
    only.factors.fill(kNothing);
    only.factors[f] = 1;
    alone[f] = simulated(run, only, true);
  }
  std::map<std::string, Row> rows;
  const auto& tasks = now.graph->tasks();
  for (std::size_t id = 0; id < tasks.size(); ++id) {
    const auto found = run.measured.by_label.find(label(tasks[id]));
    const double duration = tasks[id].duration.value();
    if (found == run.measured.by_label.end() || duration <= 0) continue;
    // Where cores are shared, or a collective runs beside it, a task takes longer than it would alone.
    const Interval& ran = now.timeline->intervals[id];
    const double stretch = (ran.end - ran.start).value() / duration;
    Row& row = rows[kind_of(tasks[id])];
    row.measured += found->second.value();
    for (std::size_t f = 0; f < alone.size(); ++f)
      row.parts[f] += stretch * alone[f].graph->tasks()[id].duration.value();
  }
  // What takes less than half a percent of a step tells nothing that matters, and would count as much.
  std::vector<Row> all;
  for (const auto& entry : rows)
    if (entry.second.measured > 0.005 * run.measured.step.value()) all.push_back(entry.second);
  return all;
}

double step_error(const std::vector<CalibrationRun>& runs, const Calibration& calibration) {
  double sum = 0;
  for (const CalibrationRun& run : runs)
    sum += std::abs(std::log(simulated(run, calibration, false).step / run.measured.step));
  return sum;
}

/// The slowdown and the fixed time with the smallest error of steps, each tried over a range.
void fit_steps(const std::vector<CalibrationRun>& runs, Calibration& calibration) {
  Seconds shortest = runs.front().measured.step;
  for (const CalibrationRun& run : runs) shortest = std::min(shortest, run.measured.step);
  Calibration best = calibration;
  double least = step_error(runs, best);
  for (int slow = 0; slow <= 10; ++slow)
    for (int fixed = 0; fixed <= 10; ++fixed) {
      Calibration tried = calibration;
      tried.overlap_slowdown = 0.05 * slow;
      tried.fixed_per_step = shortest * (0.01 * fixed);
      const double error = step_error(runs, tried);
      if (error < least * (1 - 1e-9)) {
        least = error;
        best = tried;
      }
    }
  calibration = best;
}

}  // namespace

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

StepSummary summarise(const std::vector<Measurement>& measurements) {
  std::map<std::pair<std::string, int>, std::vector<Seconds>> ranks;
  std::map<std::string, StreamKind> streams;
  std::map<int, std::pair<Seconds, Seconds>> spans;  // of steps: first start, last end
  for (const Measurement& m : measurements) {
    ranks[{m.label, m.step}].push_back(m.duration);
    streams[m.label] = m.stream;
    const auto [span, fresh] = spans.try_emplace(m.step, m.start, m.start + m.duration);
    if (fresh) continue;
    span->second.first = std::min(span->second.first, m.start);
    span->second.second = std::max(span->second.second, m.start + m.duration);
  }
  const int first = spans.size() > 1 ? spans.begin()->first : -1;
  std::map<std::string, std::vector<Seconds>> steps;
  for (auto& [key, times] : ranks) {
    if (key.second == first) continue;
    const bool waits_for_others =
        streams.at(key.first) != StreamKind::compute && key.first.find(".send_") == std::string::npos;
    steps[key.first].push_back(waits_for_others ? *std::min_element(times.begin(), times.end())
                                                : median(std::move(times)));
  }
  StepSummary summary;
  for (auto& [name, times] : steps) summary.by_label[name] = median(std::move(times));
  std::vector<Seconds> lengths;
  for (auto span = spans.begin(); span != spans.end(); ++span) {
    if (span->first == first) continue;
    // From one step's beginning to the next one's: with what no task covers.
    const auto after = std::next(span);
    lengths.push_back((after != spans.end() ? after->second.first : span->second.second) -
                      span->second.first);
  }
  summary.steps = static_cast<int>(lengths.size());
  summary.step = median(std::move(lengths));
  return summary;
}

SimulationReport simulate_calibrated(const CalibrationRun& run, const Calibration& calibration) {
  return simulated(run, calibration, false);
}

Calibration calibrate(const std::vector<CalibrationRun>& runs, const std::string& name,
                      const std::string& source) {
  Calibration calibration;
  calibration.name = name;
  calibration.source = source;
  calibration.runs = static_cast<int>(runs.size());
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Row> rows;
    for (const CalibrationRun& run : runs)
      for (const Row& row : rows_of(run, calibration))
        if (row.measured > 0) rows.push_back(row);
    const auto count = static_cast<Eigen::Index>(rows.size());
    Eigen::MatrixXd a(count, static_cast<Eigen::Index>(kFactorNames.size()));
    for (Eigen::Index r = 0; r < count; ++r)
      for (std::size_t f = 0; f < kFactorNames.size(); ++f)
        a(r, static_cast<Eigen::Index>(f)) =
            rows[static_cast<std::size_t>(r)].parts[f] / rows[static_cast<std::size_t>(r)].measured;
    const Fit fit = fit_non_negative(a, Eigen::VectorXd::Ones(count), Eigen::VectorXd::Ones(a.cols()), kPull);
    for (std::size_t f = 0; f < kFactorNames.size(); ++f) {
      calibration.factors[f] = std::max(kNothing, fit.x[static_cast<Eigen::Index>(f)]);
      calibration.identified[f] = fit.identified[f];
    }
    calibration.tasks = static_cast<int>(count);
    calibration.task_error = fit.median_error;
  }
  fit_steps(runs, calibration);
  std::vector<double> errors;
  for (const CalibrationRun& run : runs)
    errors.push_back(std::abs(simulated(run, calibration, false).step / run.measured.step - 1));
  calibration.step_error = median(std::move(errors));
  return calibration;
}

}  // namespace tpplan
