#include "planner/workbench/workbench.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>

#include "planner/placement/placement.hpp"
#include "planner/workbench/changes.hpp"
#include "planner/workbench/reasons.hpp"
#include "simulator/cost/analytic_cost_model.hpp"
#include "simulator/engine/trace.hpp"
#include "simulator/model/model_reader.hpp"
#include "simulator/plan/runtime_profiles.hpp"
#include "simulator/topology/topology_reader.hpp"

namespace tpplan {
namespace {

constexpr const char* kDefaultTopology = "dgx-a100-80g";
constexpr std::int64_t kDefaultBatchTokens = 1 << 22;
constexpr const char* kDefaultPlanFile = "plan.yaml";

Bytes memory_limit(const Problem& problem, const Settings& settings) {
  return problem.topology.device.memory * (1 - settings.search.memory_margin);
}

/// Samples of an optimizer step; a batch in tokens must be whole samples.
std::int64_t samples_of(const Settings& settings, const ModelSpec& model, int sequence) {
  if (settings.global_batch && !settings.global_batch->in_tokens) return settings.global_batch->amount;
  const std::int64_t tokens = settings.global_batch    ? settings.global_batch->amount
                              : model.global_batch > 0 ? model.global_batch
                                                       : kDefaultBatchTokens;
  const std::int64_t samples = tokens / sequence;
  if (settings.global_batch && tokens % sequence != 0)
    throw ConfigError(fmt::format(
        "--global-batch: {} tokens are not whole samples of {} tokens; the nearest are {} and {}", tokens,
        sequence, std::max<std::int64_t>(1, samples) * sequence, (samples + 1) * sequence));
  return std::max<std::int64_t>(1, samples);
}

}  // namespace

std::unique_ptr<const CostModel> cost_model_of(const Understood& understood, const Settings& settings) {
  const DeviceSpec& device = understood.problem.topology.device;
  if (understood.calibration)
    return std::make_unique<CalibratedCostModel>(device, settings.algorithm, *understood.calibration);
  return std::make_unique<AnalyticCostModel>(device, settings.algorithm);
}

Topology Workbench::load_topology(const std::string& given, int gpus, std::string& placement) const {
  const std::filesystem::path file = find_file(given, files_.topologies(), "topology");
  Topology topology = read_topology(file, files_.devices());
  if (gpus > topology.gpus_per_node && topology.fabric.kind == FabricKind::none)
    throw ConfigError(fmt::format("--gpus: {} has {} GPUs and no fabric to join several of it", given,
                                  topology.gpus_per_node));
  Placement placed = place_ranks(std::move(topology));
  placement = std::move(placed.explanation);
  const int used = gpus > 0 ? gpus : placed.topology.gpus;
  return with_gpus(std::move(placed.topology), used);
}

Understood Workbench::load(const Settings& settings, const std::string& model, const std::string& topology,
                           int gpus) const {
  Understood u{.model_file = model, .topology_file = topology};
  u.problem.model = read_model(find_file(model, files_.models(), "model"));
  u.problem.topology = load_topology(topology, gpus, u.placement);
  u.problem.max_tp = settings.max_tp;
  u.problem.causal_flops = settings.causal_flops;
  if (!settings.calibration.empty())
    u.calibration = read_calibration(find_file(settings.calibration, files_.calibrations(), "calibration"));
  return u;
}

Understood Workbench::understand(const Settings& settings) const {
  if (settings.model.empty())
    throw ConfigError("--model is missing: a file, or one of the models of `tpplan list`");
  if (settings.gpus == 0) throw ConfigError("--gpus is missing: the number of devices to plan for");
  Understood u = load(settings, settings.model,
                      settings.topology.empty() ? kDefaultTopology : settings.topology, settings.gpus);
  Problem& p = u.problem;
  p.sequence = settings.sequence > 0 ? settings.sequence : p.model.sequence;
  if (p.sequence <= 0)
    throw ConfigError(fmt::format("{}: the model states no sequence; give --seq", settings.model));
  p.global_batch = samples_of(settings, p.model, p.sequence);
  p.precision = settings.precision;
  p.runtime = runtime_profile(settings.framework).value();
  if (u.calibration) p.runtime.fixed_per_step = u.calibration->fixed_per_step;
  return u;
}

PlanVerdict Workbench::judge(const Settings& settings) const {
  if (settings.plan.empty()) throw ConfigError("--plan is missing: a plan.yaml");
  PlanVerdict verdict;
  PlanDocument& document = verdict.document;
  document = read_plan(find_file(settings.plan, files_.experiments(), "plan"));
  if (!settings.model.empty()) document.model = settings.model;
  if (!settings.topology.empty()) document.topology = settings.topology;
  if (settings.gpus > 0) document.gpus = settings.gpus;
  verdict.understood = load(settings, document.model, document.topology, document.gpus);
  Problem& p = verdict.understood.problem;
  p.sequence = document.plan.sequence;
  p.global_batch = document.plan.global_batch;
  p.precision = document.plan.precision;
  p.runtime = document.plan.runtime;
  if (verdict.understood.calibration)
    p.runtime.fixed_per_step = verdict.understood.calibration->fixed_per_step;
  verdict.limit = memory_limit(p, settings);
  verdict.violations = violations(p, document.plan);
  return verdict;
}

PlanReport Workbench::plan(const Settings& settings, const std::stop_token& stop,
                           const Progress& progress) const {
  PlanReport report{.understood = understand(settings), .options = settings.search};
  const Problem& problem = report.understood.problem;
  const auto model = cost_model_of(report.understood, settings);
  report.result = search(problem, *model, settings.search, stop, progress);
  if (!report.result.plans.empty() && !stop.stop_requested()) {
    report.reasons = reasons(report.result.plans);
    const PlanDocument document{report.understood.model_file, report.understood.topology_file,
                                problem.topology.gpus, report.result.plans.front().plan};
    write_file(settings.output.empty() ? kDefaultPlanFile : settings.output, plan_to_yaml(document));
  }
  return report;
}

SimulateReport Workbench::simulate(const Settings& settings) const {
  SimulateReport report{judge(settings)};
  const Problem& problem = report.understood.problem;
  const ParallelPlan& plan = report.document.plan;
  if (!report.violations.empty()) return report;
  report.simulation = simulate_plan(problem, *cost_model_of(report.understood, settings), plan, true);
  report.fits = report.simulation.memory.peak() <= report.limit;
  report.saved_per_layer =
      layer_memory(problem, plan.tp, plan.sequence_parallel, plan.micro_batch, plan.recompute).saved;
  if (!settings.trace.empty())
    write_file(settings.trace, chrome_trace(plan, report.simulation, report.saved_per_layer));
  return report;
}

CheckReport Workbench::check(const Settings& settings) const {
  CheckReport report{judge(settings)};
  const Problem& problem = report.understood.problem;
  const ParallelPlan& plan = report.document.plan;
  if (!report.violations.empty()) return report;
  if (const auto deadlock = find_deadlock(schedule_of(plan))) throw std::logic_error(*deadlock);
  const LayerMemory layer =
      layer_memory(problem, plan.tp, plan.sequence_parallel, plan.micro_batch, plan.recompute);
  report.memory = memory_report(problem, plan, block_parameters(problem.model, plan.tp), layer);
  if (report.memory->peak() > report.limit) {
    const auto model = cost_model_of(report.understood, settings);
    const auto change = smallest_fitting_change(problem, *model, plan, report.limit,
                                                single_changes(problem, *model, plan, report.limit));
    report.violations.push_back(
        {Rule::memory,
         fmt::format("pipeline rank {} needs {} of the {} that may be used", report.memory->worst(),
                     to_string(report.memory->peak()), to_string(report.limit)),
         change ? change->what
                : "no change of one or two settings fits; more GPUs, or a smaller model or batch"});
  }
  return report;
}

ExplainReport Workbench::explain(const Settings& settings) const {
  ExplainReport report{judge(settings)};
  const Problem& problem = report.understood.problem;
  const ParallelPlan& plan = report.document.plan;
  if (!report.violations.empty()) return report;
  const auto model = cost_model_of(report.understood, settings);
  report.simulation = simulate_plan(problem, *model, plan);
  report.fits = report.simulation.memory.peak() <= report.limit;
  report.changes = single_changes(problem, *model, plan, report.limit);
  if (!report.fits)
    report.smallest_fit = smallest_fitting_change(problem, *model, plan, report.limit, report.changes);
  return report;
}

TopologyReport Workbench::topology(const Settings& settings) const {
  std::string placement;
  const std::string given = settings.topology.empty() ? kDefaultTopology : settings.topology;
  return report_topology(load_topology(given, settings.gpus, placement));
}

ModelReport Workbench::model(const Settings& settings) const {
  if (settings.model.empty())
    throw ConfigError("--model is missing: a file, or one of the models of `tpplan list`");
  ModelReport report;
  report.file = settings.model;
  report.model = read_model(find_file(settings.model, files_.models(), "model"));
  report.sequence = settings.sequence > 0 ? settings.sequence : report.model.sequence;
  if (report.sequence <= 0)
    throw ConfigError(fmt::format("{}: the model states no sequence; give --seq", settings.model));
  report.count = count_parameters(report.model);
  report.flops_per_token = model_flops_per_token(report.model, report.sequence);
  report.operators = operator_table(report.model, 1, false, 1, report.sequence);
  report.degrees = tp_degrees(report.model, std::min(16, report.model.heads));
  return report;
}

ValidationReport Workbench::validate(const Settings& settings) const {
  if (settings.folder.empty()) throw ConfigError("validate needs the folder of measured runs");
  const std::vector<MeasuredRun> runs = read_measured_runs(settings.folder, files_.devices());
  if (runs.empty()) throw ConfigError(settings.folder + ": holds no *.yaml with measured runs");
  ValidationReport report = tpplan::validate(
      runs, {.dense_only = settings.dense, .include_vague = settings.include_vague, .worst = settings.worst});
  if (!settings.output.empty()) write_file(settings.output, predictions_json(report));
  return report;
}

ListReport Workbench::list() const {
  return {shipped_names(files_.models()), shipped_names(files_.topologies()), shipped_names(files_.devices()),
          shipped_names(files_.experiments()), runtime_profile_names()};
}

std::string describe(const ParallelPlan& p) {
  std::string text = fmt::format("tp {} pp {} dp {}", p.tp, p.pp, p.dp);
  if (p.sequence_parallel) text += ", sequence parallel";
  text += fmt::format(", ZeRO {}", static_cast<int>(p.zero));
  if (p.vpp > 1) text += fmt::format(", vpp {}", p.vpp);
  return text + fmt::format(", micro-batch {}, recompute {}, {}", p.micro_batch,
                            kRecomputeNames[static_cast<std::size_t>(p.recompute)],
                            kScheduleNames[static_cast<std::size_t>(p.schedule)]);
}

}  // namespace tpplan
