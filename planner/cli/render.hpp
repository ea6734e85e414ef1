#pragma once

#include <string>

#include "planner/workbench/run_reports.hpp"

namespace tpplan {

/// Reports as the text of the terminal. `bold`: heads in terminal codes.
[[nodiscard]] std::string render(const PlanReport& report, bool bold);
[[nodiscard]] std::string render(const SimulateReport& report, bool bold);
[[nodiscard]] std::string render(const CheckReport& report, bool bold);
[[nodiscard]] std::string render(const ExplainReport& report, bool bold);
[[nodiscard]] std::string render(const RunReport& report, bool bold);
[[nodiscard]] std::string render(const VerifyReport& report, bool bold);
[[nodiscard]] std::string render(const CompareReport& report, bool bold);
[[nodiscard]] std::string render(const ProbeReport& report, bool bold);
[[nodiscard]] std::string render(const CalibrateReport& report, bool bold);
[[nodiscard]] std::string render(const TuneReport& report, bool bold);
[[nodiscard]] std::string render(const TopologyReport& report, bool bold);
[[nodiscard]] std::string render(const ModelReport& report, bool bold);
[[nodiscard]] std::string render(const ValidationReport& report, bool bold);
[[nodiscard]] std::string render(const ListReport& report, bool bold);

/// The progress line of a run.
[[nodiscard]] std::string render_step(const RunStep& step);

/// The model and cluster as they were understood, two lines or three.
[[nodiscard]] std::string render_understood(const Understood& understood);

}  // namespace tpplan
