#pragma once

#include <filesystem>
#include <string>

#include "simulator/document/document.hpp"
#include "simulator/plan/parallel_plan.hpp"

namespace tpplan {

/// A plan with what it was made for, so that `tpplan simulate --plan plan.yaml` needs nothing else.
struct PlanDocument {
  std::string model;     // as given to --model
  std::string topology;  // as given to --topology
  int gpus = 1;
  ParallelPlan plan;
  bool operator==(const PlanDocument&) const = default;
};

/// plan.yaml. Runtime options are written where they differ from their framework's profile.
[[nodiscard]] std::string plan_to_yaml(const PlanDocument& document);

/// Strict: unknown keys, missing units and numbers out of range are ConfigErrors. Legality is not checked
/// here.
[[nodiscard]] PlanDocument plan_from(const Value& document);
[[nodiscard]] PlanDocument read_plan(const std::filesystem::path& file);

}  // namespace tpplan
