#pragma once

#include "executor/worker/workload.hpp"

namespace tpplan {

/// Compares the gradients of the plan with those of one rank, both in the job's folder, and writes
/// verified.json there: losses, norms, the worst tensor, and the first one in model order that differs by
/// more than rounding. ||g - g1|| <= tolerance ||g1|| + what the format loses of a typical gradient, because
/// some true gradients are zero (biases of keys).
void compare_gradients(const Workload& work);

}  // namespace tpplan
