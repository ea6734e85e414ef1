#pragma once

#include <optional>
#include <vector>

#include "planner/workbench/reports.hpp"

namespace tpplan {

/// Every legal plan that differs from `plan` in one choice (a degree traded against another, sequence
/// parallelism, ZeRO, micro-batch, recompute, schedule with its chunks), simulated; the fastest that fits
/// first, then those that do not fit.
[[nodiscard]] std::vector<Change> single_changes(const Problem& problem, const CostModel& model,
                                                 const ParallelPlan& plan, Bytes limit);

/// For a plan that does not fit, from its single changes: the fastest that fits, or else the fastest pair of
/// changes.
[[nodiscard]] std::optional<Change> smallest_fitting_change(const Problem& problem, const CostModel& model,
                                                            const ParallelPlan& plan, Bytes limit,
                                                            const std::vector<Change>& singles);

}  // namespace tpplan
