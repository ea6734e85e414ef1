#include <algorithm>
#include <chrono>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <map>
#include <set>

#include "planner/workbench/supervisor.hpp"
#include "planner/workbench/workbench.hpp"
#include "simulator/calibration/calibrate.hpp"
#include "simulator/model/model_reader.hpp"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

std::string today() { return fmt::format("{:%Y-%m-%d}", fmt::localtime(std::time(nullptr))); }

std::string name_or_stem(const Settings& settings, const fs::path& file) {
  return settings.name.empty() ? file.stem().string() : settings.name;
}

}  // namespace

ProbeReport Workbench::probe(const Settings& settings, const std::stop_token& stop,
                             const RunWatcher& watcher) const {
  ProbeReport report;
  const fs::path folder = settings.job.output.empty() ? "tpplan-probe" : settings.job.output;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw SystemError(fmt::format("{}: cannot be created: {}", folder.string(), error.message()));
  TrainingJob job = settings.job;
  job.task = JobTask::probe;
  job.output = folder.string();
  if (!settings.model.empty()) {
    const fs::path model = find_file(settings.model, files_.models(), "model");
    job.model = fs::absolute(model).string();
    job.sequence = settings.sequence > 0 ? settings.sequence : read_model(model).sequence;
  }
  if (settings.sequence > 0) job.sequence = settings.sequence;
  const fs::path file = folder / "job.yaml";
  write_file(file, job_to_yaml(job));
  const Launch launch = launch_of(settings, job.ranks, file);
  RunReport ignored;
  Supervisor(folder, watcher).run(launch, stop, ignored, Stopping::at_once);
  report.folder = folder.string();
  report.how = launch.how;
  report.result = read_probe(folder / "probe.json");
  report.links = fit_links(report.result);
  const fs::path topology = settings.output.empty() ? folder / "topology.yaml" : fs::path(settings.output);
  write_file(topology, probe_topology(report.result, name_or_stem(settings, topology)));
  report.file = topology.string();
  return report;
}

CalibrateReport Workbench::calibrate(const Settings& settings) const {
  if (settings.runs.empty())
    throw ConfigError("--run is missing: folders of runs, each with measurements.jsonl");
  CalibrateReport report;
  std::vector<CalibrationRun> runs;
  std::string machine;
  for (const std::string& folder : settings.runs) {
    Settings own = settings;
    own.plan = (fs::path(folder) / "plan.yaml").string();
    own.calibration.clear();
    const PlanVerdict verdict = judge(own);
    const RecordedRun recorded = read_measurements(fs::path(folder) / "measurements.jsonl");
    machine = fmt::format("{} ({} cores, {}, {})", recorded.environment.cpu, recorded.environment.cores,
                          recorded.environment.backend, recorded.environment.transport);
    runs.push_back({verdict.understood.problem, verdict.document.plan, summarise(recorded.measurements)});
    report.runs.push_back({folder,
                           describe(verdict.document.plan),
                           runs.back().measured.step,
                           simulate_calibrated(runs.back(), Calibration{}).step,
                           {}});
  }
  const fs::path file = settings.output.empty() ? fs::path("calibration.yaml") : fs::path(settings.output);
  report.calibration = tpplan::calibrate(runs, name_or_stem(settings, file),
                                         fmt::format("{} runs on {}, {}", runs.size(), machine, today()));
  for (std::size_t i = 0; i < runs.size(); ++i)
    report.runs[i].after = simulate_calibrated(runs[i], report.calibration).step;
  write_file(file, calibration_to_yaml(report.calibration));
  report.file = file.string();
  return report;
}

TuneReport Workbench::tune(const Settings& settings, const std::stop_token& stop,
                           const RunWatcher& watcher) const {
  TuneReport report;
  const fs::path folder = settings.job.output.empty() ? "tpplan-tune" : settings.job.output;
  if (fs::exists(folder / "calibration.yaml"))
    throw ConfigError(fmt::format("{}: holds a tuning already; give another --out", folder.string()));
  report.folder = folder.string();
  const auto note = [&](const std::string& text) {
    if (watcher.note) watcher.note(text);
  };
  Settings own = settings;
  own.framework = "tpplan";
  own.gpus = settings.job.ranks;
  if (settings.topology.empty()) {
    note("probing the machine");
    Settings probing = settings;
    probing.job.output = (folder / "probe").string();
    probing.output = (folder / "topology.yaml").string();
    own.topology = probe(probing, stop, watcher).file;
  }
  report.topology = own.topology;
  own.search.top = 1000;                        // of which candidates with other degrees are taken
  std::map<std::string, std::size_t> measured;  // plans that ran, by description
  std::vector<std::string> folders;
  for (int round = 1; round <= settings.rounds && !report.stable && !stop.stop_requested(); ++round) {
    own.output = (folder / fmt::format("plan-{}.yaml", round)).string();
    const PlanReport planned = plan(own, stop);
    if (planned.result.plans.empty())
      throw ConfigError(fmt::format("no plan for {} ranks is legal and fits", settings.job.ranks));
    report.chosen = own.output;
    report.description = describe(planned.result.plans.front().plan);
    report.predicted = planned.result.plans.front().report.step;
    report.stable = measured.count(report.description) > 0;
    if (report.stable) break;
    int started = 0;
    std::set<std::array<int, 3>> degrees;  // one plan of each: others tell the calibration little more
    for (const auto& candidate : planned.result.plans) {
      const std::string description = describe(candidate.plan);
      if (measured.count(description) > 0 || started == settings.candidates || stop.stop_requested())
        continue;
      if (started > 0 && !degrees.insert({candidate.plan.tp, candidate.plan.pp, candidate.plan.dp}).second)
        continue;
      degrees.insert({candidate.plan.tp, candidate.plan.pp, candidate.plan.dp});
      const fs::path out = folder / fmt::format("run-{}-{}", round, ++started);
      note(fmt::format("round {}: {}", round, description));
      Settings running = own;
      running.plan = (folder / fmt::format("plan-{}-{}.yaml", round, started)).string();
      write_file(running.plan,
                 plan_to_yaml({planned.understood.model_file, own.topology, own.gpus, candidate.plan}));
      running.job.output = out.string();
      running.job.steps = settings.job.steps == TrainingJob{}.steps ? 6 : settings.job.steps;
      running.job.save_at_end = false;
      const RunReport ran = run(running, stop, watcher);
      measured[description] = report.tried.size();
      report.tried.push_back({round, description, out.string(), candidate.report.step, ran.median_step()});
      folders.push_back(out.string());
    }
    Settings fitting = own;
    fitting.runs = folders;
    fitting.model.clear();
    fitting.topology.clear();
    fitting.gpus = 0;
    fitting.output = (folder / "calibration.yaml").string();
    report.calibration = calibrate(fitting).calibration;
    own.calibration = fitting.output;
  }
  // What was measured counts for more than what is predicted.
  const auto fastest =
      std::min_element(report.tried.begin(), report.tried.end(),
                       [](const TunedPlan& a, const TunedPlan& b) { return a.measured < b.measured; });
  if (fastest == report.tried.end()) return report;
  report.chosen = (folder / "plan.yaml").string();
  fs::copy_file(fs::path(fastest->folder) / "plan.yaml", report.chosen, fs::copy_options::overwrite_existing);
  report.description = fastest->plan;
  report.predicted = fastest->predicted;
  report.measured = fastest->measured;
  return report;
}

}  // namespace tpplan
