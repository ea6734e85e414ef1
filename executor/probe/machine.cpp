#include "executor/probe/machine.hpp"

#include <algorithm>
#include <array>
#include <hwloc.h>
#include <memory>
#include <sched.h>
#include <unistd.h>

namespace tpplan {
namespace {

Machine machine_with(const cpu_set_t& usable) {
  Machine machine{.cpu = "unknown CPU"};
  machine.memory =
      Bytes{static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE))};
  machine.cores = std::max(1, CPU_COUNT(&usable));
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return machine;
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> owned(topology,
                                                                                 hwloc_topology_destroy);
  if (hwloc_topology_load(topology) != 0) return machine;
  const hwloc_obj_t root = hwloc_get_root_obj(topology);
  for (const hwloc_obj_t object : {hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0), root})
    if (const char* name = object != nullptr ? hwloc_obj_get_info_by_name(object, "CPUModel") : nullptr) {
      machine.cpu = name;
      break;
    }
  // A core may count several hardware threads: products gain nothing from the second.
  const int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  if (cores > 0) machine.cores = std::min(machine.cores, cores);
  return machine;
}

cpu_set_t own_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  return set;
}

}  // namespace

Machine detect_machine() { return machine_with(own_cpus()); }

Machine detect_machine(Communicator& world) {
  cpu_set_t set = own_cpus();
  std::array<double, CPU_SETSIZE> usable{};
  for (std::size_t cpu = 0; cpu < usable.size(); ++cpu) usable[cpu] = CPU_ISSET(cpu, &set) ? 1 : 0;
  world.all_reduce(usable, ReduceOp::max);
  for (std::size_t cpu = 0; cpu < usable.size(); ++cpu)
    if (usable[cpu] > 0) CPU_SET(cpu, &set);
  return machine_with(set);
}

Environment environment_of(const RankHost& host, int ranks, const std::string& backend) {
  return {.cpu = host.machine.cpu,
          .cores = host.machine.cores,
          .backend = backend,
          .transport = host.transport,
          .version = TPPLAN_VERSION,
          .ranks = ranks,
          .threads = host.threads,
          .hosts = std::max(1, ranks / host.ranks_on_host)};
}

}  // namespace tpplan
