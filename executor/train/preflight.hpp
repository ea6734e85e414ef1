#pragma once

#include "executor/train/context.hpp"

namespace tpplan {

/// Before the first step: every group sums known values and every pair of pipeline neighbours exchanges a
/// message in both directions, and all results are checked. Throws SystemError that names the group and the
/// ranks when something arrives wrong; what never arrives is for the watchdog.
void preflight(RankContext& rank);

}  // namespace tpplan
