#pragma once

#include <map>
#include <string>
#include <vector>

#include "simulator/calibration/calibration.hpp"
#include "simulator/calibration/measurement.hpp"
#include "simulator/engine/simulation.hpp"

namespace tpplan {

/// A run boiled down to what a prediction says: seconds of each label, and of a step.
struct StepSummary {
  std::map<std::string, Seconds> by_label;
  Seconds step;
  int steps = 0;  // that count: all but the first, which allocates and makes primitives
};

/// Medians over steps. Of the ranks that ran a task of the same label, those that compute or send count by
/// their median; of a collective the shortest counts, since the others waited for that rank.
[[nodiscard]] StepSummary summarise(const std::vector<Measurement>& measurements);

struct CalibrationRun {
  Problem problem;
  ParallelPlan plan;
  StepSummary measured;
};

/// Factors that bring the predicted tasks of all runs near the measured ones: robust non-negative least
/// squares over relative errors of each stage's forwards, backwards, reductions, gathers, sends and
/// optimizer; then the slowdown beside collectives and the fixed time that bring the steps nearest. What the
/// runs do not tell stays as it is and is named.
[[nodiscard]] Calibration calibrate(const std::vector<CalibrationRun>& runs, const std::string& name,
                                    const std::string& source);

/// A step of a run under a calibration.
[[nodiscard]] SimulationReport simulate_calibrated(const CalibrationRun& run, const Calibration& calibration);

/// "s0 forward", "s1 gradient reduction": the kind of work that a task is part of.
[[nodiscard]] std::string kind_of(const Task& task);

}  // namespace tpplan
