#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/planner.hpp"
#include "simulator/calibration/calibration.hpp"
#include "simulator/calibration/validation.hpp"
#include "simulator/model/operator_graph.hpp"
#include "simulator/plan/plan_codec.hpp"
#include "simulator/topology/topology_report.hpp"

namespace tpplan {

/// A problem as it was understood, with where it came from.
struct Understood {
  Problem problem;
  std::string model_file, topology_file;   // as the user named them
  std::optional<Calibration> calibration;  // that corrects the cost model
  std::string placement;                   // how ranks lie on devices, in words
};

struct PlanReport {
  Understood understood;
  SearchOptions options;
  SearchResult result;
  std::vector<std::string> reasons;  // why the first plan beats the next ones
};

/// A plan with what it is for, and which rules it breaks: what every verb of a plan begins with.
struct PlanVerdict {
  Understood understood;
  PlanDocument document;
  Bytes limit;                        // memory that may be used
  std::vector<Violation> violations;  // when not empty, the plan cannot be simulated
};

struct SimulateReport : PlanVerdict {
  SimulationReport simulation;  // with its timeline
  Bytes saved_per_layer;        // activations of a layer and micro-batch
  bool fits = true;
};

/// Legal and fitting, or every rule that is broken, memory among them.
struct CheckReport : PlanVerdict {
  std::optional<MemoryReport> memory;  // when the plan is legal
};

/// One or two settings of a plan changed, everything else as it was.
struct Change {
  std::string what;  // "tp 8 -> 4, dp 16 -> 32"
  ParallelPlan plan;
  SimulationReport report;
  double gain = 0;  // of step time, relative: 0.05 is 5 % faster
  bool fits = true;
};

struct ExplainReport : PlanVerdict {
  SimulationReport simulation;
  bool fits = true;
  std::vector<Change> changes;         // best first
  std::optional<Change> smallest_fit;  // for a plan that does not fit
};

struct ModelReport {
  ModelSpec model;
  std::string file;
  int sequence = 0;
  ParameterCount count;
  double flops_per_token = 0;
  std::vector<OperatorRow> operators;
  std::vector<TpDegree> degrees;
};

struct ListReport {
  std::vector<std::string> models, topologies, devices, experiments, frameworks;
};

}  // namespace tpplan
