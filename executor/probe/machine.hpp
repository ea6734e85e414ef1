#pragma once

#include <string>

#include "executor/backend/communicator.hpp"
#include "simulator/calibration/measurement.hpp"
#include "simulator/units/units.hpp"

namespace tpplan {

/// What hwloc tells of this host.
struct Machine {
  std::string cpu;  // "AMD EPYC 9B45"
  int cores = 1;    // that this process may use
  Bytes memory;     // of the host
};
/// Where a rank runs, as far as a job needs to know.
struct RankHost {
  Machine machine;
  int threads = 1;
  int ranks_on_host = 1;
  int ranks_on_machine = 1;  // more than on the host where hosts are containers of one machine
  std::string transport;     // "threads", "Open MPI v4.1.4"
};

[[nodiscard]] Machine detect_machine();
/// The same, with the cores of all ranks together: each may be bound to its own. All ranks call it.
[[nodiscard]] Machine detect_machine(Communicator& world);

/// What measurements of `ranks` ranks like this one are headed with.
[[nodiscard]] Environment environment_of(const RankHost& host, int ranks, const std::string& backend);

}  // namespace tpplan
