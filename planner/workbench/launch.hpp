#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "planner/workbench/settings.hpp"
#include "simulator/plan/ranks.hpp"

namespace tpplan {

/// How the ranks of a job are started.
struct Launch {
  std::vector<std::string> command;
  std::string how;  // "4 ranks as threads of one process", "128 ranks by mpirun on 16 hosts"
};

/// Where a rank goes, for people to read.
struct RankPlace {
  int rank = 0;
  std::string host;
  int device = 0;   // of the host
  std::string nic;  // nearest to the device; empty where the topology has none
  RankPosition at;
  RankGroups groups;
};

/// One host a line: `name slots=N` (1 without slots), # begins a comment.
struct Host {
  std::string name;
  int slots = 1;
};
/// Throws ConfigError with file and line.
[[nodiscard]] std::vector<Host> read_hostfile(const std::filesystem::path& file);

/// tpplan-worker, beside this program or in PATH. Throws ConfigError when there is none.
[[nodiscard]] std::string find_worker();

/// The command that runs `job` with `ranks` ranks. Throws ConfigError when the launcher that was asked for is
/// not there, or the hosts have too few slots.
[[nodiscard]] Launch launch_of(const Settings& settings, int ranks, const std::filesystem::path& job);

/// An sbatch script for the same job: nodes, tasks, cores, and the rank order of the plan.
[[nodiscard]] std::string sbatch_script(const std::string& name, int nodes, int ranks_per_node, int threads,
                                        const std::filesystem::path& folder);

/// Rank r of the plan on hosts of `per_host` devices.
[[nodiscard]] std::vector<RankPlace> rank_places(const ParallelPlan& plan, const ModelSpec& model,
                                                 const std::vector<Host>& hosts, int per_host,
                                                 const std::vector<std::string>& nic_of_device);

}  // namespace tpplan
