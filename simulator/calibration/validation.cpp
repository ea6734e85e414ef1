#include "simulator/calibration/validation.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <tuple>

#include "simulator/cost/analytic_cost_model.hpp"

namespace tpplan {
namespace {

/// Records that had to assume one of these say little about a model's accuracy.
bool is_vague(const MeasuredRun& run) {
  static const std::set<std::string> vague{"micro_batch", "recompute", "heads", "vpp", "precision"};
  return std::any_of(run.assumed.begin(), run.assumed.end(),
                     [&](const auto& field) { return vague.contains(field); });
}

bool is_dense(const MeasuredRun& run) {
  return !run.problem.model.moe && run.plan.cp == 1 &&
         (run.plan.precision == Precision::bf16 || run.plan.precision == Precision::fp16);
}

double mean(const std::vector<double>& values) {
  return values.empty()
             ? 0
             : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

struct Pair {
  double predicted, measured;
};

/// Spearman's rank correlation; ties keep the order of the input.
double rank_correlation(const std::vector<Pair>& pairs) {
  const auto ranks = [&](double Pair::*member) {
    std::vector<std::size_t> order(pairs.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return pairs[a].*member < pairs[b].*member; });
    std::vector<double> rank(pairs.size());
    for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = static_cast<double>(i);
    return rank;
  };
  const std::vector<double> a = ranks(&Pair::predicted), b = ranks(&Pair::measured);
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  const double n = static_cast<double>(pairs.size());
  return 1 - 6 * squares / (n * (n * n - 1));
}

/// Measured time of the layout that is predicted fastest over the best measured one, minus one.
double regret(const std::vector<Pair>& pairs) {
  const auto chosen = std::min_element(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) {
    return std::tuple(a.predicted, -a.measured) < std::tuple(b.predicted, -b.measured);
  });
  const auto best = std::min_element(pairs.begin(), pairs.end(),
                                     [](const Pair& a, const Pair& b) { return a.measured < b.measured; });
  return chosen->measured / best->measured - 1;
}

Prediction predict(const MeasuredRun& run) {
  const AnalyticCostModel model(run.problem.topology.device);
  const SimulationReport report = simulate_plan(run.problem, model, run.plan);
  Prediction prediction{.step = report.step, .breakdown = report.breakdown};
  prediction.fits = report.memory.peak() <= run.problem.topology.device.memory;
  for (const StageMemory& rank : report.memory.ranks) {
    Bytes used = rank.total();
    if (run.memory_kind == "allocated") used = rank.allocated();
    if (run.memory_kind == "reserved") used = rank.total() - rank.of(MemoryCategory::context);
    prediction.peak_memory = std::max(prediction.peak_memory, used);
  }
  return prediction;
}

std::string dominant_term(const Breakdown& b) {
  const std::array<std::pair<const char*, Seconds>, 11> terms{{{"matrix products", b.ideal + b.product_loss},
                                                               {"attention", b.attention_loss},
                                                               {"memory-bound kernels", b.memory_bound},
                                                               {"host", b.host},
                                                               {"recompute", b.recompute},
                                                               {"tensor parallel", b.tensor_parallel},
                                                               {"pipeline transfers", b.pipeline},
                                                               {"data parallel", b.data_parallel},
                                                               {"bubble", b.bubble},
                                                               {"optimizer", b.optimizer},
                                                               {"fixed work", b.other}}};
  return std::max_element(terms.begin(), terms.end(),
                          [](const auto& x, const auto& y) { return x.second < y.second; })
      ->first;
}

/// Layouts of one model on one machine with the same batch, precision and software.
using GroupKey = std::tuple<std::string, std::int64_t, int, int, std::string, int, std::int64_t, Precision,
                            std::string, bool>;

GroupKey group_key(const MeasuredRun& run) {
  const ModelSpec& m = run.problem.model;
  const RuntimeOptions& o = run.problem.runtime;
  return {m.name,
          m.hidden,
          m.layers,
          run.problem.sequence,
          run.problem.topology.device.name,
          run.problem.topology.gpus,
          run.plan.global_batch,
          run.plan.precision,
          o.framework + std::string(kAttentionKernelNames[static_cast<std::size_t>(o.attention)]) +
              std::to_string(static_cast<int>(o.fusion)) + std::to_string(static_cast<int>(o.tp_overlap)),
          o.fused_norm};
}

Accuracy measure(const std::vector<const MeasuredRun*>& runs,
                 const std::map<std::string, Prediction>& predictions, std::vector<Outlier>& outliers) {
  Accuracy accuracy;
  std::vector<double> errors, absolute, memory;
  std::map<GroupKey, std::vector<Pair>> groups;
  for (const MeasuredRun* run : runs) {
    ++accuracy.runs;
    if (run->step) ++accuracy.timed;
    const auto found = predictions.find(run->id);
    if (found == predictions.end()) {
      if (run->step) absolute.push_back(1);  // no prediction counts as an error of 100 %
      continue;
    }
    ++accuracy.predicted;
    const Prediction& prediction = found->second;
    if (run->step) {
      const double error = prediction.step / *run->step - 1;
      errors.push_back(error);
      absolute.push_back(std::abs(error));
      groups[group_key(*run)].push_back({prediction.step.value(), run->step->value()});
      outliers.push_back({run->id, error, dominant_term(prediction.breakdown)});
      ++accuracy.fitting_runs;
      if (!prediction.fits) ++accuracy.oom_false;
    }
    if (run->peak_memory) memory.push_back(std::abs(prediction.peak_memory / *run->peak_memory - 1));
    if (run->out_of_memory) {
      ++accuracy.oom_runs;
      if (!prediction.fits) ++accuracy.oom_found;
    }
  }
  accuracy.mean_error = mean(absolute);
  accuracy.median_error = median(absolute);
  accuracy.bias = mean(errors);
  accuracy.memory_runs = static_cast<int>(memory.size());
  accuracy.memory_error = mean(memory);
  std::vector<double> regrets, correlations;
  for (const auto& [key, pairs] : groups)
    if (pairs.size() >= 4) {
      regrets.push_back(regret(pairs));
      correlations.push_back(rank_correlation(pairs));
    }
  accuracy.groups = static_cast<int>(regrets.size());
  accuracy.regret = mean(regrets);
  accuracy.rank_correlation = mean(correlations);
  return accuracy;
}

}  // namespace

ValidationReport validate(const std::vector<MeasuredRun>& runs, const ValidationOptions& options) {
  ValidationReport report;
  std::map<std::string, std::vector<const MeasuredRun*>> sources;
  for (const MeasuredRun& run : runs) {
    for (const std::string& substitution : run.taken_as) ++report.taken_as[substitution];
    if (run.unmodelled.empty())
      report.predictions.emplace(run.id, predict(run));
    else
      report.unmodelled[run.unmodelled].push_back(run.id);
    if ((options.dense_only && !is_dense(run)) || (!options.include_vague && is_vague(run))) continue;
    sources[run.group].push_back(&run);
  }
  std::vector<double> errors, memory_errors;
  for (const auto& [name, members] : sources) {
    const Accuracy accuracy = measure(members, report.predictions, report.worst);
    report.sources[name] = accuracy;
    if (accuracy.timed > 0) errors.push_back(accuracy.mean_error);
    if (accuracy.memory_runs > 0) memory_errors.push_back(accuracy.memory_error);
  }
  report.macro_error = mean(errors);
  report.macro_memory_error = mean(memory_errors);
  std::stable_sort(report.worst.begin(), report.worst.end(),
                   [](const Outlier& a, const Outlier& b) { return std::abs(a.error) > std::abs(b.error); });
  if (report.worst.size() > static_cast<std::size_t>(options.worst))
    report.worst.resize(static_cast<std::size_t>(options.worst));
  return report;
}

std::string predictions_json(const ValidationReport& report) {
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  for (const auto& [id, prediction] : report.predictions)
    document[id] = {{"step_s", prediction.step.value()},
                    {"peak_memory_gib", prediction.peak_memory / gibibytes(1)},
                    {"fits", prediction.fits}};
  return document.dump(1) + "\n";
}

}  // namespace tpplan
