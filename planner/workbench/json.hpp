#pragma once

#include <string>

#include "planner/workbench/run_reports.hpp"

namespace tpplan {

/// Reports as one JSON document each: what the text shows, in base units (seconds, bytes, FLOPs).
[[nodiscard]] std::string to_json(const PlanReport& report);
[[nodiscard]] std::string to_json(const SimulateReport& report);
[[nodiscard]] std::string to_json(const CheckReport& report);
[[nodiscard]] std::string to_json(const ExplainReport& report);
[[nodiscard]] std::string to_json(const RunReport& report);
[[nodiscard]] std::string to_json(const VerifyReport& report);
[[nodiscard]] std::string to_json(const CompareReport& report);
[[nodiscard]] std::string to_json(const ProbeReport& report);
[[nodiscard]] std::string to_json(const CalibrateReport& report);
[[nodiscard]] std::string to_json(const TuneReport& report);
[[nodiscard]] std::string to_json(const TopologyReport& report);
[[nodiscard]] std::string to_json(const ModelReport& report);
[[nodiscard]] std::string to_json(const ValidationReport& report);
[[nodiscard]] std::string to_json(const ListReport& report);

}  // namespace tpplan
