#pragma once

#include "simulator/engine/simulation.hpp"

namespace tpplan {

/// What the search gives every plan besides its degrees: stages balanced by cost, the default bucket, and the
/// order of the axes with the lower bound on step time (the first when equal). Requires layers >= pp * vpp.
[[nodiscard]] ParallelPlan complete_plan(const Problem& problem, const CostModel& model, ParallelPlan plan);

/// Layers to stages by what the blocks cost.
[[nodiscard]] std::vector<Stage> balanced_stages(int layers, int pp, int vpp, const LayerCosts& blocks);

}  // namespace tpplan
