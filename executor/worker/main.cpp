// tpplan-worker JOB.yaml: one rank of a job under mpirun or srun, or all ranks as threads of this process.
// tpplan writes the job and starts this program.

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fmt/format.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "executor/backend/rank_threads.hpp"
#include "executor/backend/waiting.hpp"
#include "executor/cpu/mpi_world.hpp"
#include "executor/probe/probe.hpp"
#include "executor/worker/events.hpp"
#include "executor/worker/run_training.hpp"
#include "executor/worker/verify.hpp"
#include "simulator/calibration/probe_result.hpp"
#include "simulator/model/model_reader.hpp"

namespace tpplan {
namespace {

enum ExitCode { kDone = 0, kFailed = 1, kUserMistake = 2 };

/// Runs `body` and tells what went wrong; the exit code of the process.
int guarded(int rank, const std::function<void()>& body) {
  try {
    body();
    return kDone;
  } catch (const ConfigError& error) {
    emit_error(rank, kUserMistake, error.what());
    return kUserMistake;
  } catch (const std::exception& error) {
    emit_error(rank, kFailed, error.what());
    return kFailed;
  }
}

void run(const Workload& work, Communicator& world, const RankHost& host) {
  if (work.plan.world() != world.size())
    throw ConfigError(fmt::format("{}: the plan is for {} ranks; {} were started", work.job.plan,
                                  work.plan.world(), world.size()));
  if (work.job.task == JobTask::verify) {
    run_gradients(work, world, host, "plan");
  } else if (work.job.task == JobTask::verify_one) {
    run_gradients(work, world, host, "one");
    compare_gradients(work);
  } else {
    run_training(work, world, host);
  }
}

/// Writes probe.json to the folder of the job.
void probe(const TrainingJob& job, Communicator& world, const RankHost& host) {
  ProbeRequest request;
  if (!job.model.empty()) request.model = read_model(job.model);
  request.sequence = job.sequence;
  const ProbeResult result = run_probe(request, world, host);
  if (world.rank() == 0) write_file(std::filesystem::path(job.output) / "probe.json", to_json(result));
}

/// Tells which collective waits, gives the other ranks time to tell the same, and ends the job.
void end_stuck_job(MpiWorld& mpi, const OperationBoard::Waiting& waiting) {
  emit({{"event", "waiting"},
        {"rank", mpi.rank()},
        {"label", waiting.label},
        {"what", waiting.what},
        {"members", waiting.members},
        {"seconds", waiting.since.value()}});
  std::this_thread::sleep_for(std::chrono::seconds(2));
  mpi.abort(kFailed);
}

int run_as_mpi_rank(const TrainingJob& job) {
  Backoff::be_precise();
  MpiWorld mpi;
  OperationBoard board;
  const int code = guarded(mpi.rank(), [&] {
    const Watchdog watchdog(board, Seconds{job.patience},
                            [&](const OperationBoard::Waiting& waiting) { end_stuck_job(mpi, waiting); });
    const auto world = mpi.connect(board);
    const Machine machine = detect_machine(*world);
    const RankHost host{machine, threads_of_rank(job, machine, mpi.ranks_on_machine()), mpi.ranks_on_host(),
                        mpi.ranks_on_machine(), mpi.library()};
    ranks_share_cores = host.ranks_on_machine * host.threads > machine.cores;
    if (job.task == JobTask::probe)
      probe(job, *world, host);
    else
      run(read_workload(job), *world, host);
  });
  if (code != kDone) mpi.abort(code);
  return code;
}

int run_as_threads(const TrainingJob& job) {
  return guarded(0, [&] {
    const bool probes = job.task == JobTask::probe;
    const std::optional<Workload> work = probes ? std::nullopt : std::optional(read_workload(job));
    const int ranks = probes ? job.ranks : work->plan.world();
    const Machine machine = detect_machine();
    const RankHost host{machine, threads_of_rank(job, machine, ranks), ranks, ranks, "threads"};
    run_rank_threads(ranks, Seconds{job.patience}, [&](Communicator& world) {
      if (probes)
        probe(job, world, host);
      else
        run(*work, world, host);
    });
  });
}

int worker_main(int argc, char** argv) {
  CLI::App app{"A rank of a training job that tpplan wrote.", "tpplan-worker"};
  std::string file;
  bool check = false, mpi = false;
  app.add_option("job", file, "job.yaml")->required();
  app.add_flag("--check", check, "read the job and what it names, and say whether it can be run");
  app.add_flag("--has-mpi", mpi, "whether this program can run as ranks of MPI: exit code 0 or 1");
  if (argc == 2 && std::string_view(argv[1]) == "--has-mpi")
    return MpiWorld::is_available() ? kDone : kFailed;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kUserMistake;
  }
  TrainingJob job;
  if (const int code = guarded(0, [&] { job = read_job(file); }); code != kDone) return code;
  if (check)
    return guarded(0, [&] {
      if (job.task != JobTask::probe) (void)read_workload(job);
    });
  return MpiWorld::is_launched() ? run_as_mpi_rank(job) : run_as_threads(job);
}

}  // namespace
}  // namespace tpplan

int main(int argc, char** argv) { return tpplan::worker_main(argc, argv); }
