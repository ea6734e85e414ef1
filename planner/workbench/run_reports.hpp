#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/workbench/launch.hpp"
#include "planner/workbench/reports.hpp"
#include "simulator/calibration/probe_result.hpp"

namespace tpplan {

/// What rank 0 tells after each step.
struct RunStep {
  std::int64_t step = 0, steps = 0;
  double loss = 0, gradient_norm = 0, learning_rate = 0, loss_scale = 1;
  bool skipped = false;
  Seconds time;
  double tokens_per_second = 0;
  double communication = 0, pipeline_wait = 0;  // shares of the step, mean over the ranks
  Bytes memory;
};

/// Called as things happen, from the thread that called the verb.
struct RunWatcher {
  std::function<void(const RunStep&)> step;
  std::function<void(const std::string&)> note;
};

struct RunReport : PlanVerdict {
  std::string folder, how, command;
  std::vector<RankPlace> places;  // of a dry run
  std::string script;             // of Slurm: the file, and what sbatch said
  std::vector<RunStep> steps;
  std::optional<std::int64_t> resumed_from;
  bool stopped = false;  // before the last step, because the user asked
  double communication = 0, pipeline_wait = 0, utilisation = 0;
  std::vector<Bytes> memory;              // peak of every rank
  std::optional<double> unigram_entropy;  // of the data
  Seconds predicted;                      // step time
  MemoryReport predicted_memory;
  [[nodiscard]] Seconds median_step() const;
};

struct VerifyReport : PlanVerdict {
  std::string how;
  double loss = 0, loss_of_one = 0;
  double gradient_norm = 0, gradient_norm_of_one = 0;
  double tolerance = 0;
  int tensors = 0;
  std::string worst;  // tensor with the largest ||g - g1|| / ||g1||
  double worst_error = 0;
  std::string first_wrong;  // in model order; empty: all agree
  double first_wrong_error = 0;
  [[nodiscard]] bool agrees() const;
};

/// One kind of task: all its occurrences over steps, micro-batches and layers of one stage.
struct ComparedTask {
  std::string what;             // "s0 forward", "s1 data-parallel reduction"
  int count = 0;                // of a step
  Seconds predicted, measured;  // sums over a step: predicted, and the median over steps
  Bytes bytes;                  // of a step
  [[nodiscard]] double error() const { return predicted / measured - 1; }
};

struct CompareReport : PlanVerdict {
  std::string folder, trace;
  int steps = 0, ranks = 0;
  std::vector<ComparedTask> tasks;
  std::vector<std::string> only_predicted, only_measured;  // labels without a partner
  Seconds predicted_step, measured_step;                   // the median of the steps after the first
};

struct ProbeReport {
  std::string folder, file, how;  // of the run, the topology that was written, how ranks were started
  ProbeResult result;
  FittedLinks links;
};

/// One run that a calibration was fitted to.
struct CalibratedRun {
  std::string folder, plan;
  Seconds measured, before, after;  // step: measured, predicted without and with the calibration
};

struct CalibrateReport {
  Calibration calibration;
  std::string file;
  std::vector<CalibratedRun> runs;
};

struct TunedPlan {
  int round = 0;
  std::string plan, folder;
  Seconds predicted, measured;
};

struct TuneReport {
  std::string folder, topology;
  std::vector<TunedPlan> tried;  // in the order of the runs
  Calibration calibration;
  std::string chosen;  // file of the plan that was measured to be the fastest
  std::string description;
  Seconds predicted, measured;  // of the chosen plan
  bool stable = false;          // planning again gave a plan that had been measured
};

}  // namespace tpplan
