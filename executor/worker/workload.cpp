#include "executor/worker/workload.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "simulator/model/model_reader.hpp"
#include "simulator/plan/problem.hpp"

namespace tpplan {
namespace {

/// Why a legal plan cannot be run by this program on a CPU; empty when it can.
std::string why_not_runnable(const ParallelPlan& plan) {
  if (plan.cp > 1) return fmt::format("context parallelism (cp {}) cannot be run yet", plan.cp);
  if (plan.ep > 1) return fmt::format("expert parallelism (ep {}) cannot be run yet", plan.ep);
  if (plan.precision != Precision::fp32 && plan.precision != Precision::bf16 &&
      plan.precision != Precision::fp16)
    return fmt::format("precision {} cannot be run on a CPU; fp32, bf16 and fp16 can", name(plan.precision));
  return {};
}

}  // namespace

Workload read_workload(const TrainingJob& job) {
  Workload work{job, read_model(job.model), read_plan(job.plan).plan};
  if (const std::string reason = why_not_trainable(work.model); !reason.empty())
    throw ConfigError(fmt::format("{}: {}", job.model, reason));
  if (const std::string reason = why_not_runnable(work.plan); !reason.empty())
    throw ConfigError(fmt::format("{}: {}", job.plan, reason));
  // The rules that hang on the machine were checked by who made the plan; here it may be any.
  Problem problem;
  problem.model = work.model;
  problem.sequence = work.plan.sequence;
  problem.global_batch = work.plan.global_batch;
  problem.precision = work.plan.precision;
  problem.topology.gpus = problem.topology.gpus_per_node = problem.topology.used_per_node = work.plan.world();
  problem.topology.nvlink_domain = work.plan.world();
  problem.topology.device.peak.fill(FlopsPerSecond{1});
  for (const Violation& v : violations(problem, work.plan))
    throw ConfigError(fmt::format("{}: {}; {}", job.plan, v.message, v.remedy));
  return work;
}

int threads_of_rank(const TrainingJob& job, const Machine& machine, int ranks) {
  return job.threads > 0 ? job.threads : std::max(1, machine.cores / ranks);
}

}  // namespace tpplan
