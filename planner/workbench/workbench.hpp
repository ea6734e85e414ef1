#pragma once

#include <stop_token>

#include "planner/workbench/data_files.hpp"
#include "planner/workbench/run_reports.hpp"
#include "planner/workbench/settings.hpp"
#include "simulator/cost/analytic_cost_model.hpp"

namespace tpplan {

/// The one facade of command line and GUI. Every verb takes settings and returns what it found; nothing is
/// printed, and only files that the settings name are written. User mistakes are ConfigError, failures of the
/// machine SystemError.
class Workbench {
 public:
  explicit Workbench(DataFiles files) : files_(std::move(files)) {}

  /// Searches; writes the best plan to Settings::output (plan.yaml when empty) if there is one.
  [[nodiscard]] PlanReport plan(const Settings& settings, const std::stop_token& stop = {},
                                const Progress& progress = {}) const;
  /// Writes Settings::trace when given. An illegal plan is not simulated: `violations` says why. One that
  /// does not fit is, so that its memory can be studied.
  [[nodiscard]] SimulateReport simulate(const Settings& settings) const;
  [[nodiscard]] CheckReport check(const Settings& settings) const;
  /// An illegal plan is not simulated: `violations` says why.
  [[nodiscard]] ExplainReport explain(const Settings& settings) const;
  /// Trains. `stop` ends training after the step that is under way, with a checkpoint.
  [[nodiscard]] RunReport run(const Settings& settings, const std::stop_token& stop = {},
                              const RunWatcher& watcher = {}) const;
  /// The plan with a model that has its layers, heads and vocabulary split but few channels: two steps.
  [[nodiscard]] RunReport rehearse(const Settings& settings, const std::stop_token& stop = {},
                                   const RunWatcher& watcher = {}) const;
  [[nodiscard]] VerifyReport verify(const Settings& settings, const std::stop_token& stop = {},
                                    const RunWatcher& watcher = {}) const;
  /// Writes Settings::trace when given: both timelines in one.
  [[nodiscard]] CompareReport compare(const Settings& settings) const;
  /// Measures the ranks of this machine, or of the hosts given; writes the topology to Settings::output.
  [[nodiscard]] ProbeReport probe(const Settings& settings, const std::stop_token& stop,
                                  const RunWatcher& watcher = {}) const;
  /// Fits the cost model to runs; writes the calibration to Settings::output.
  [[nodiscard]] CalibrateReport calibrate(const Settings& settings) const;
  /// Probes unless a topology is given, plans, runs the best few plans for some steps, calibrates and plans
  /// again until the choice is one that was measured.
  [[nodiscard]] TuneReport tune(const Settings& settings, const std::stop_token& stop = {},
                                const RunWatcher& watcher = {}) const;
  [[nodiscard]] TopologyReport topology(const Settings& settings) const;
  [[nodiscard]] ModelReport model(const Settings& settings) const;
  /// Writes the predictions to Settings::output when given.
  [[nodiscard]] ValidationReport validate(const Settings& settings) const;
  [[nodiscard]] ListReport list() const;

 private:
  [[nodiscard]] Understood understand(const Settings& settings) const;
  /// The plan file with its problem, memory limit and broken rules.
  [[nodiscard]] PlanVerdict judge(const Settings& settings) const;
  [[nodiscard]] Understood load(const Settings& settings, const std::string& model,
                                const std::string& topology, int gpus) const;
  /// `gpus` 0: as many as the file's nodes hold.
  [[nodiscard]] Topology load_topology(const std::string& given, int gpus, std::string& placement) const;

  DataFiles files_;
};

/// Prices plans of the problem as the settings ask for.
[[nodiscard]] std::unique_ptr<const CostModel> cost_model_of(const Understood& understood,
                                                             const Settings& settings);

/// Name of a plan in one line: "tp 8 pp 4 dp 4, sequence parallel, ZeRO 1, vpp 3, micro-batch 2,
/// interleaved".
[[nodiscard]] std::string describe(const ParallelPlan& plan);

}  // namespace tpplan
