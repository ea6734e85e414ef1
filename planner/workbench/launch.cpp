#include "planner/workbench/launch.hpp"

#include <charconv>
#include <fmt/format.h>
#include <fstream>
#include <numeric>
#include <sstream>
#include <thread>
#include <unistd.h>

#include "planner/workbench/process.hpp"
#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

namespace fs = std::filesystem;

bool wants_mpirun(const Settings& settings) {
  if (settings.launcher != Launcher::automatic) return settings.launcher == Launcher::mpirun;
  if (!settings.hostfile.empty()) return true;
  if (find_program("mpirun").empty()) return false;
  const ProcessEnd end = run_process(
      {find_worker(), "--has-mpi"}, [](const std::string&) {}, [] {});
  return end.code == 0;
}

}  // namespace

std::vector<Host> read_hostfile(const fs::path& file) {
  std::ifstream in(file);
  if (!in) throw ConfigError(fmt::format("{}: cannot be read", file.string()));
  std::vector<Host> hosts;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    Host host;
    if (!(words >> host.name)) continue;
    for (std::string word; words >> word;) {
      const std::string_view digits = std::string_view(word).substr(std::min<std::size_t>(word.size(), 6));
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), host.slots);
      if (!word.starts_with("slots=") || error != std::errc{} || end != digits.data() + digits.size() ||
          host.slots < 1)
        throw ConfigError(
            fmt::format("{}:{}: '{}' must be slots=N with N of 1 or more", file.string(), number, word));
    }
    hosts.push_back(std::move(host));
  }
  if (hosts.empty()) throw ConfigError(fmt::format("{}: names no host", file.string()));
  return hosts;
}

std::string find_worker() {
  std::error_code error;
  const fs::path self = fs::canonical("/proc/self/exe", error);
  const fs::path beside = self.parent_path() / "tpplan-worker";
  if (!error && ::access(beside.c_str(), X_OK) == 0) return beside.string();
  const std::string found = find_program("tpplan-worker");
  if (found.empty())
    throw ConfigError(
        fmt::format("tpplan-worker is neither beside this program ({}) nor in PATH; build or install it",
                    self.parent_path().string()));
  return found;
}

Launch launch_of(const Settings& settings, int ranks, const fs::path& job) {
  const std::string worker = find_worker();
  if (settings.launcher == Launcher::threads && !settings.hostfile.empty())
    throw ConfigError(
        "--launcher threads runs on this machine alone; leave out --hostfile, or give --launcher mpirun");
  if (!wants_mpirun(settings))
    return {{worker, job.string()}, fmt::format("{} ranks as threads of one process", ranks)};
  const std::string mpirun = find_program("mpirun");
  if (mpirun.empty()) throw ConfigError("mpirun is not in PATH; install Open MPI or give --launcher threads");
  Launch launch{{mpirun, "-np", std::to_string(ranks)}, {}};
  const auto add = [&](std::initializer_list<std::string> words) {
    launch.command.insert(launch.command.end(), words);
  };
  int slots = static_cast<int>(std::thread::hardware_concurrency());
  std::size_t hosts = 1;
  if (!settings.hostfile.empty()) {
    const std::vector<Host> given = read_hostfile(settings.hostfile);
    hosts = given.size();
    slots =
        std::accumulate(given.begin(), given.end(), 0, [](int sum, const Host& h) { return sum + h.slots; });
    if (slots < ranks)
      throw ConfigError(
          fmt::format("{}: {} slots are too few for {} ranks", settings.hostfile, slots, ranks));
    add({"--hostfile", settings.hostfile});
  }
  const int threads = std::max(1, settings.job.threads > 0 ? settings.job.threads : slots / ranks);
  // Ranks that share cores must yield while they wait; others are bound, so that no core runs two of them.
  // How many cores the hosts of a hostfile have is not known here: ranks that deal them out are not bound.
  const bool shared = settings.hostfile.empty() && ranks * threads > slots;
  const bool unknown = !settings.hostfile.empty() && settings.job.threads == 0;
  if (shared) add({"--oversubscribe", "--mca", "mpi_yield_when_idle", "1"});
  if (settings.binding == Binding::none || (settings.binding == Binding::automatic && (shared || unknown)))
    add({"--map-by", "slot", "--bind-to", "none"});
  else
    add({"--map-by", fmt::format("slot:PE={}", threads), "--bind-to", "core"});
  // A message in the other direction waits behind a long one unless sends go in pieces.
  add({"--mca", "btl_tcp_flags", "send", worker, job.string()});
  if (::geteuid() == 0) launch.command.insert(launch.command.begin() + 1, "--allow-run-as-root");
  launch.how = hosts == 1 ? fmt::format("{} ranks by mpirun", ranks)
                          : fmt::format("{} ranks by mpirun on {} hosts", ranks, hosts);
  return launch;
}

std::string sbatch_script(const std::string& name, int nodes, int ranks_per_node, int threads,
                          const fs::path& folder) {
  return fmt::format(
      "#!/bin/bash\n"
      "# Written by tpplan. Rank r runs on node r / {1} as its task r % {1}: the rank order of the plan.\n"
      "#SBATCH --job-name={0}\n#SBATCH --nodes={2}\n#SBATCH --ntasks-per-node={1}\n#SBATCH "
      "--cpus-per-task={3}\n"
      "#SBATCH --distribution=block:block\n#SBATCH --output={4}/slurm-%j.out\n"
      "export OMP_NUM_THREADS={3}\n"
      "srun --mpi=pmix --kill-on-bad-exit=1 --cpu-bind=cores {5} {4}/job.yaml\n",
      name, ranks_per_node, nodes, threads, folder.string(), find_worker());
}

std::vector<RankPlace> rank_places(const ParallelPlan& plan, const ModelSpec& model,
                                   const std::vector<Host>& hosts, int per_host,
                                   const std::vector<std::string>& nic_of_device) {
  std::vector<RankPlace> places;
  std::size_t host = 0;
  int device = 0;
  for (int rank = 0; rank < plan.world(); ++rank) {
    if (device == (hosts.empty() ? per_host : hosts[host].slots)) {
      ++host;
      device = 0;
    }
    RankPlace place{.rank = rank,
                    .host = hosts.empty() ? fmt::format("node{}", host) : hosts[host].name,
                    .device = device++,
                    .at = position_of(plan, rank),
                    .groups = groups_of(plan, model, rank)};
    if (static_cast<std::size_t>(place.device) < nic_of_device.size())
      place.nic = nic_of_device[static_cast<std::size_t>(place.device)];
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace tpplan
