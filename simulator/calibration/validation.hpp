#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "simulator/engine/simulation.hpp"

namespace tpplan {

/// One measured training run: what was trained, how, and what came out.
struct MeasuredRun {
  std::string id;
  std::string group;  // the file's stem: one source
  Problem problem;
  ParallelPlan plan;
  std::optional<Seconds> step;
  std::optional<Bytes> peak_memory;
  std::string memory_kind;  // allocated, reserved, nvidia-smi, unstated
  bool out_of_memory = false;
  std::vector<std::string> assumed;   // fields that the source does not state
  std::vector<std::string> taken_as;  // "device X as Y": what stands in for what is not known
  std::string unmodelled;             // why it cannot be predicted; empty: it can
};

struct Prediction {
  Seconds step;
  Bytes peak_memory;  // of the kind that was measured
  bool fits = true;
  Breakdown breakdown;
};

/// Accuracy over the runs of one source, or of all.
struct Accuracy {
  int runs = 0, predicted = 0, timed = 0;
  double mean_error = 0, median_error = 0, bias = 0;  // of step time, relative
  int memory_runs = 0;
  double memory_error = 0;
  int oom_runs = 0, oom_found = 0;      // ran out of memory, and was predicted to
  int fitting_runs = 0, oom_false = 0;  // ran, and was predicted not to fit
  int groups = 0;                       // sets of at least 4 layouts of one model on one machine
  double regret = 0, rank_correlation = 0;
};

struct Outlier {
  std::string id;
  double error = 0;
  std::string dominant_term;
};

struct ValidationReport {
  std::map<std::string, Accuracy> sources;
  double macro_error = 0;  // mean over sources
  double macro_memory_error = 0;
  std::vector<Outlier> worst;
  std::map<std::string, std::vector<std::string>> unmodelled;  // reason: ids
  std::map<std::string, int> taken_as;                         // "device X as Y": runs
  std::map<std::string, Prediction> predictions;               // by id
};

/// Reads every *.yaml of a folder. `devices` is the folder of device files. A device or framework that is not
/// known is taken as its nearest relative, which `taken_as` states; one without relatives makes the run
/// unmodelled. Throws ConfigError.
[[nodiscard]] std::vector<MeasuredRun> read_measured_runs(const std::filesystem::path& folder,
                                                          const std::filesystem::path& devices);

struct ValidationOptions {
  bool dense_only = false;     // dense models, cp 1, bf16 or fp16
  bool include_vague = false;  // also runs that had to assume micro batch, recompute, heads, vpp or precision
  int worst = 10;
};

[[nodiscard]] ValidationReport validate(const std::vector<MeasuredRun>& runs,
                                        const ValidationOptions& options);

/// {"id": {"step_s": x, "peak_memory_gib": y, "fits": true}} as JSON text.
[[nodiscard]] std::string predictions_json(const ValidationReport& report);

}  // namespace tpplan
