#pragma once

#include <string>

#include "executor/probe/machine.hpp"
#include "executor/train/trainer.hpp"
#include "simulator/plan/plan_codec.hpp"
#include "simulator/plan/training_job.hpp"

namespace tpplan {

/// A job with its files read and checked.
struct Workload {
  TrainingJob job;
  ModelSpec model;
  ParallelPlan plan;
};

/// Reads model and plan. Throws ConfigError for a wrong file, for an illegal plan, and for what is legal but
/// cannot be run here: by name, with the reason.
[[nodiscard]] Workload read_workload(const TrainingJob& job);

/// OpenMP threads of a rank: what the job says, or the cores that all of them may use dealt out over the
/// `ranks` of the machine.
[[nodiscard]] int threads_of_rank(const TrainingJob& job, const Machine& machine, int ranks);

}  // namespace tpplan
