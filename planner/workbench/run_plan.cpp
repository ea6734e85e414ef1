#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <nlohmann/json.hpp>

#include "planner/workbench/process.hpp"
#include "planner/workbench/rehearsal.hpp"
#include "planner/workbench/supervisor.hpp"
#include "planner/workbench/workbench.hpp"
#include "simulator/cost/analytic_cost_model.hpp"
#include "simulator/model/model_reader.hpp"
#include "simulator/units/median.hpp"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultFolder = "tpplan-run";

/// Folder of the run, new or to be gone on with.
fs::path prepare_folder(const Settings& settings, const std::string& otherwise) {
  const fs::path folder = settings.job.output.empty() ? otherwise : settings.job.output;
  if (fs::exists(folder / "job.yaml") && !settings.job.resume)
    throw ConfigError(fmt::format("{}: holds a run already; give --resume to go on with it, or another --out",
                                  folder.string()));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw SystemError(fmt::format("{}: cannot be created: {}", folder.string(), error.message()));
  return folder;
}

/// Writes model, plan and job to the folder, so that a run can be understood and repeated from it alone.
fs::path write_job(const fs::path& folder, TrainingJob job, const ModelSpec& model,
                   const PlanDocument& document, const std::string& suffix = {}) {
  job.model = (folder / "model.yaml").string();
  job.plan = (folder / ("plan" + suffix + ".yaml")).string();
  job.output = folder.string();
  write_file(job.model, model_to_yaml(model));
  PlanDocument own = document;
  own.model = job.model;
  write_file(job.plan, plan_to_yaml(own));
  const fs::path file = folder / ("job" + suffix + ".yaml");
  write_file(file, job_to_yaml(job));
  return file;
}

TrainingJob training_job(const Settings& settings) {
  TrainingJob job = settings.job;
  job.training.total_steps = job.steps;
  if (!settings.has_min_learning_rate) job.training.min_learning_rate = job.training.learning_rate / 10;
  return job;
}

void refuse_illegal(const PlanVerdict& verdict) {
  if (verdict.violations.empty()) return;
  const Violation& v = verdict.violations.front();
  throw ConfigError(fmt::format("{}; {}", v.message, v.remedy));
}

std::vector<std::string> nics_of(const Topology& topology) {
  std::vector<std::string> names;
  for (const int nic : topology.nic_of_gpu)
    names.push_back(nic < 0 ? std::string{}
                            : topology.node[topology.nic_vertices[static_cast<std::size_t>(nic)]].name);
  return names;
}

void submit(const Settings& settings, const fs::path& folder, RunReport& report) {
  const Topology& topology = report.understood.problem.topology;
  const fs::path script = folder / "job.sbatch";
  write_file(script,
             sbatch_script(report.understood.problem.model.name, topology.nodes(), topology.used_per_node,
                           std::max(1, settings.job.threads), fs::absolute(folder)));
  report.script = script.string();
  report.how = fmt::format("{} tasks by srun", report.document.plan.world());
  const std::string sbatch = find_program("sbatch");
  if (sbatch.empty() || settings.dry_run) return;
  std::string said;
  const ProcessEnd end = run_process(
      {sbatch, script.string()}, [&](const std::string& line) { said = line; }, [] {});
  if (end.code != 0) throw SystemError(fmt::format("sbatch: {}", end.errors));
  report.script += ": " + said;
}

}  // namespace

Seconds RunReport::median_step() const {
  // The first step allocates and makes primitives: it is left out where there are others.
  std::vector<Seconds> times;
  for (std::size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i) times.push_back(steps[i].time);
  return median(std::move(times));
}

bool VerifyReport::agrees() const {
  return first_wrong.empty() && std::abs(loss / loss_of_one - 1) <= tolerance;
}

RunReport Workbench::run(const Settings& settings, const std::stop_token& stop,
                         const RunWatcher& watcher) const {
  RunReport report{judge(settings)};
  refuse_illegal(report);
  const Problem& problem = report.understood.problem;
  const ParallelPlan& plan = report.document.plan;
  const SimulationReport simulation =
      simulate_plan(problem, *cost_model_of(report.understood, settings), plan);
  report.predicted = simulation.step;
  report.predicted_memory = simulation.memory;
  if (settings.dry_run) {
    const std::vector<Host> hosts =
        settings.hostfile.empty() ? std::vector<Host>{} : read_hostfile(settings.hostfile);
    const int per_host = settings.hostfile.empty() ? problem.topology.used_per_node : 0;
    report.places = rank_places(plan, problem.model, hosts, per_host, nics_of(problem.topology));
    const Launch launch =
        launch_of(settings, plan.world(),
                  fs::path(settings.job.output.empty() ? kDefaultFolder : settings.job.output) / "job.yaml");
    report.how = launch.how;
    report.command = fmt::format("{}", fmt::join(launch.command, " "));
    return report;
  }
  const fs::path folder = prepare_folder(settings, kDefaultFolder);
  report.folder = folder.string();
  const fs::path job = write_job(folder, training_job(settings), problem.model, report.document);
  check_job(job);
  if (settings.slurm) {
    submit(settings, folder, report);
    return report;
  }
  const Launch launch = launch_of(settings, plan.world(), job);
  report.how = launch.how;
  report.command = fmt::format("{}", fmt::join(launch.command, " "));
  Supervisor(folder, watcher).run(launch, stop, report);
  return report;
}

RunReport Workbench::rehearse(const Settings& settings, const std::stop_token& stop,
                              const RunWatcher& watcher) const {
  RunReport report{judge(settings)};
  refuse_illegal(report);
  const Rehearsal small = shrink(report.understood.problem.model, report.document.plan);
  Settings own = settings;
  if (own.launcher == Launcher::automatic) own.launcher = Launcher::threads;
  if (own.job.threads == 0) own.job.threads = 1;
  const fs::path folder = prepare_folder(settings, "tpplan-rehearsal");
  report.folder = folder.string();
  TrainingJob job = training_job(own);
  job.task = JobTask::rehearse;
  job.steps = settings.job.steps == TrainingJob{}.steps ? 2 : settings.job.steps;
  job.save_at_end = false;
  job.measure = false;
  PlanDocument document = report.document;
  document.plan = small.plan;
  const fs::path file = write_job(folder, job, small.model, document);
  check_job(file);
  const Launch launch = launch_of(own, small.plan.world(), file);
  report.how = launch.how;
  report.command = fmt::format("{}", fmt::join(launch.command, " "));
  Supervisor(folder, watcher).run(launch, stop, report);
  fs::remove(folder / "job.yaml");  // a rehearsal may be repeated in its folder
  return report;
}

VerifyReport Workbench::verify(const Settings& settings, const std::stop_token& stop,
                               const RunWatcher& watcher) const {
  VerifyReport report{judge(settings)};
  refuse_illegal(report);
  const ModelSpec& model = report.understood.problem.model;
  Settings own = settings;
  const fs::path folder = prepare_folder(settings, "tpplan-verify");
  TrainingJob job = training_job(own);
  job.task = JobTask::verify;
  const fs::path file = write_job(folder, job, model, report.document);
  check_job(file);
  RunReport ignored;
  const Launch launch = launch_of(own, report.document.plan.world(), file);
  report.how = launch.how;
  Supervisor(folder, watcher).run(launch, stop, ignored, Stopping::at_once);

  PlanDocument one = report.document;
  one.gpus = 1;
  one.plan = on_one_rank(report.document.plan, model);
  own.launcher = Launcher::threads;
  job.task = JobTask::verify_one;
  const fs::path file_of_one = write_job(folder, job, model, one, ".one");
  Supervisor(folder, watcher).run(launch_of(own, 1, file_of_one), stop, ignored, Stopping::at_once);

  std::ifstream in(folder / "verified.json");
  const nlohmann::json result = nlohmann::json::parse(in);
  report.loss = result.at("loss").get<double>();
  report.loss_of_one = result.at("loss_of_one").get<double>();
  report.gradient_norm = result.at("gradient_norm").get<double>();
  report.gradient_norm_of_one = result.at("gradient_norm_of_one").get<double>();
  report.tolerance = result.at("tolerance").get<double>();
  report.tensors = result.at("tensors").get<int>();
  report.worst = result.at("worst").get<std::string>();
  report.worst_error = result.at("worst_error").get<double>();
  report.first_wrong = result.at("first_wrong").get<std::string>();
  report.first_wrong_error = result.at("first_wrong_error").get<double>();
  fs::remove(folder / "job.yaml");
  return report;
}

}  // namespace tpplan
