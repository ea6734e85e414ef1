#pragma once

#include <string>

#include "simulator/engine/simulation.hpp"

namespace tpplan {

/// The step as a Chrome trace (the JSON array format that Perfetto opens): a process per pipeline rank, a
/// thread per stream, a complete event per task with its bytes or FLOPs, and counter tracks of the memory
/// that the rank's forwards and backwards take and free. Times in microseconds. `report` must hold its
/// timeline.
[[nodiscard]] std::string chrome_trace(const ParallelPlan& plan, const SimulationReport& report,
                                       Bytes saved_per_layer);

}  // namespace tpplan
