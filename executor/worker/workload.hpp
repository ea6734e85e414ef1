#pragma once

#include <string>

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

/// OpenMP threads of a rank: what the job says, or the cores that this process may use dealt out over the
/// ranks of the host.
[[nodiscard]] int threads_of_rank(const TrainingJob& job, int ranks_on_host);

}  // namespace tpplan
