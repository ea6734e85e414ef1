#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/cli/render.hpp"
#include "planner/cli/table.hpp"
#include "planner/workbench/workbench.hpp"

namespace tpplan {
namespace {

// What practitioners aim for: communication below 15 % of a step, compute above 80 %.
constexpr double kCommunicationGoal = 0.15, kUtilisationGoal = 0.80;

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string dry_run(const RunReport& report, bool bold) {
  Table table({"rank", "host", "device", "NIC", "tp", "dp", "pp", "tensor group", "data group", "pipeline"});
  for (const RankPlace& place : report.places)
    table.add({std::to_string(place.rank), place.host, std::to_string(place.device),
               place.nic.empty() ? "-" : place.nic, std::to_string(place.at.tp), std::to_string(place.at.dp),
               std::to_string(place.at.pp), fmt::format("{}", fmt::join(place.groups.tensor, " ")),
               fmt::format("{}", fmt::join(place.groups.data, " ")),
               fmt::format("{}", fmt::join(place.groups.pipeline, " "))});
  return fmt::format("{}\nCommand  {}\nNothing was started.\n", table.text(bold), report.command);
}

}  // namespace

std::string render_step(const RunStep& step) {
  return fmt::format(
      "step {:>6}/{}  loss {:.4f}  |g| {:.3g}  lr {:.2e}  {:>8.0f} tokens/s  {}  comm {:.0f} %{}  {}{}",
      step.step + 1, step.steps, step.loss, step.gradient_norm, step.learning_rate, step.tokens_per_second,
      to_string(step.time), 100 * step.communication,
      step.pipeline_wait > 0 ? fmt::format("  pipeline wait {:.0f} %", 100 * step.pipeline_wait) : "",
      to_string(step.memory),
      step.skipped ? fmt::format("  skipped: overflow at loss scale {}", step.loss_scale) : "");
}

std::string render(const RunReport& report, bool bold) {
  if (!report.places.empty()) return render_understood(report.understood) + dry_run(report, bold);
  if (!report.script.empty()) return fmt::format("Slurm    {}\n", report.script);
  std::string text = fmt::format("\nRan      {}; folder {}\n", report.how, report.folder);
  if (report.steps.empty()) return text + "         no step was left to run\n";
  const RunStep& first = report.steps.front();
  const RunStep& last = report.steps.back();
  text += fmt::format("Loss     {:.4f} -> {:.4f} in {} steps{}\n", first.loss, last.loss, report.steps.size(),
                      report.unigram_entropy
                          ? fmt::format("; a guess without context has {:.4f}", *report.unigram_entropy)
                          : "");
  if (report.predicted.value() > 0)
    text += fmt::format("Step     {} measured (median), {} predicted ({:+.1f} %)\n",
                        to_string(report.median_step()), to_string(report.predicted),
                        100 * (report.predicted / report.median_step() - 1));
  text +=
      fmt::format("Shares   communication {} (goal below {}), pipeline wait {}, compute {} (goal above {})\n",
                  percent(report.communication), percent(kCommunicationGoal), percent(report.pipeline_wait),
                  percent(report.utilisation), percent(kUtilisationGoal));
  if (!report.memory.empty()) {
    const auto [low, high] = std::minmax_element(report.memory.begin(), report.memory.end());
    text +=
        fmt::format("Memory   {} on the fullest rank, {} on the emptiest", to_string(*high), to_string(*low));
    if (!report.predicted_memory.ranks.empty()) {
      const StageMemory& worst = report.predicted_memory.ranks[report.predicted_memory.worst()];
      text += fmt::format("; {} predicted", to_string(worst.allocated()));
    }
    text += "\n";
  }
  if (report.stopped) text += "Stopped  before the last step; --resume goes on\n";
  return text;
}

std::string render(const VerifyReport& report, bool) {
  std::string text = fmt::format("Ran      {}, and one rank\n", report.how);
  text += fmt::format("Loss     {:.8f}, one rank {:.8f}: off by {:.1e}\n", report.loss, report.loss_of_one,
                      report.loss / report.loss_of_one - 1);
  text += fmt::format("Norm     {:.8f}, one rank {:.8f}: off by {:.1e}\n", report.gradient_norm,
                      report.gradient_norm_of_one, report.gradient_norm / report.gradient_norm_of_one - 1);
  text +=
      fmt::format("Tensors  {} gradients; the worst, {}, is off by {:.1e} of its norm; {:.1e} is allowed\n",
                  report.tensors, report.worst, report.worst_error, report.tolerance);
  return text + (report.agrees() ? "Verdict  the plan trains like one rank\n"
                 : report.first_wrong.empty()
                     ? std::string("Verdict  the losses differ\n")
                     : fmt::format("Verdict  differs: the first tensor is {}, by {:.1e}\n",
                                   report.first_wrong, report.first_wrong_error));
}

std::string render(const CompareReport& report, bool bold) {
  Table table({"task", "a step", "predicted", "measured", "error %", "bytes", "GB/s"});
  for (const ComparedTask& task : report.tasks)
    table.add(
        {task.what, std::to_string(task.count), to_string(task.predicted), to_string(task.measured),
         fmt::format("{:+.1f}", 100 * task.error()), task.bytes.value() > 0 ? to_string(task.bytes) : "-",
         task.bytes.value() > 0 ? fmt::format("{:.2f}", task.bytes.value() / task.measured.value() / 1e9)
                                : "-"});
  std::string text = render_understood(report.understood) + table.text(bold);
  text += fmt::format("Step     {} predicted, {} measured (median of {}): {:+.1f} %\n",
                      to_string(report.predicted_step), to_string(report.measured_step), report.steps,
                      100 * (report.predicted_step / report.measured_step - 1));
  const auto some = [](const std::vector<std::string>& labels) {
    const auto count = static_cast<std::ptrdiff_t>(std::min<std::size_t>(labels.size(), 6));
    return fmt::format("{}{}", fmt::join(labels.begin(), labels.begin() + count, ", "),
                       labels.size() > 6 ? ", .." : "");
  };
  if (!report.only_predicted.empty())
    text += fmt::format("Note     {} tasks were predicted and not measured: {}\n",
                        report.only_predicted.size(), some(report.only_predicted));
  if (!report.only_measured.empty())
    text += fmt::format("Note     {} tasks were measured and not predicted: {}\n",
                        report.only_measured.size(), some(report.only_measured));
  if (!report.trace.empty()) text += fmt::format("Trace    {}\n", report.trace);
  return text;
}

std::string render(const ProbeReport& report, bool bold) {
  const ProbeResult& r = report.result;
  std::string text = fmt::format("Machine  {}: {} cores, {}; {} of {} thread{} ({})\n", r.environment.cpu,
                                 r.environment.cores, to_string(r.memory), report.how, r.environment.threads,
                                 r.environment.threads == 1 ? "" : "s", r.environment.transport);
  Table table({"", "measured", ""});
  double best = 0, worst = 1e300;
  for (const MeasuredProduct& p : r.products) {
    best = std::max(best, p.rate.value());
    worst = std::min(worst, p.rate.value());
  }
  table.add({"products", fmt::format("{:.0f} to {:.0f} GFLOP/s", worst / 1e9, best / 1e9),
             fmt::format("{} shapes", r.products.size())});
  table.add({"memory", to_string(r.memory_bandwidth), "streaming, each rank that has a core"});
  table.add({"smallest kernel", to_string(r.kernel_floor), ""});
  if (report.links.local_count > 0)
    table.add({"inside a host",
               fmt::format("{}, {}", to_string(report.links.local_bandwidth),
                           to_string(report.links.local_latency)),
               fmt::format("explains {} collectives to {:.0f} % (median)", report.links.local_count,
                           100 * report.links.local_error)});
  if (report.links.network_count > 0)
    table.add({"between hosts",
               fmt::format("{}, {}", to_string(report.links.network_bandwidth),
                           to_string(report.links.network_latency)),
               fmt::format("explains {} collectives to {:.0f} % (median)", report.links.network_count,
                           100 * report.links.network_error)});
  return text + table.text(bold) + fmt::format("Topology {}\n", report.file);
}

std::string render(const CalibrateReport& report, bool bold) {
  const Calibration& c = report.calibration;
  Table factors({"factor", "measured / predicted", ""});
  for (std::size_t i = 0; i < kFactorNames.size(); ++i)
    factors.add({std::string(kFactorNames[i]), fmt::format("{:.3f}", c.factors[i]),
                 c.identified[i] ? "" : "not told by these runs"});
  Table runs({"run", "measured", "before", "error %", "after", "error %", "plan"});
  for (const CalibratedRun& run : report.runs)
    runs.add({run.folder, to_string(run.measured), to_string(run.before),
              fmt::format("{:+.1f}", 100 * (run.before / run.measured - 1)), to_string(run.after),
              fmt::format("{:+.1f}", 100 * (run.after / run.measured - 1)), run.plan});
  return factors.text(bold) + runs.text(bold) +
         fmt::format(
             "Fit      {} kinds of tasks of {} runs, median error {:.1f} %; steps {:.1f} %; slowdown beside "
             "collectives {:.0f} %, fixed {}\nWrote    {}\n",
             c.tasks, c.runs, 100 * c.task_error, 100 * c.step_error, 100 * c.overlap_slowdown,
             to_string(c.fixed_per_step), report.file);
}

std::string render(const TuneReport& report, bool bold) {
  Table table({"round", "predicted", "measured", "error %", "plan"});
  for (const TunedPlan& tried : report.tried)
    table.add({std::to_string(tried.round), to_string(tried.predicted), to_string(tried.measured),
               fmt::format("{:+.1f}", 100 * (tried.predicted / tried.measured - 1)), tried.plan});
  return fmt::format("Machine  {}\n", report.topology) + table.text(bold) +
         fmt::format(
             "Choice   {}: {} predicted{}; {}\n         {}\n", report.description,
             to_string(report.predicted),
             report.measured.value() > 0 ? fmt::format(", {} measured", to_string(report.measured)) : "",
             report.stable ? "stable: planning again gave a plan that had been measured"
                           : "not yet stable: give more --rounds",
             report.chosen);
}

}  // namespace tpplan
