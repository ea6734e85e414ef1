#pragma once

#include <functional>

#include "executor/backend/communicator.hpp"
#include "simulator/units/units.hpp"

namespace tpplan {

/// Runs `body` once for each rank, as threads of this process that share an in-process world. When one fails
/// the others are stopped, and its exception is thrown. An operation that waits longer than `limit` is a
/// failure that names the operation and the ranks that are missing from it.
void run_rank_threads(int ranks, Seconds limit, const std::function<void(Communicator& world)>& body);

}  // namespace tpplan
