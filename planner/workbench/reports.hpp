#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/planner.hpp"
#include "simulator/calibration/validation.hpp"
#include "simulator/model/operator_graph.hpp"
#include "simulator/plan/plan_codec.hpp"
#include "simulator/topology/topology_report.hpp"

namespace tpplan {

/// A problem as it was understood, with where it came from.
struct Understood {
  Problem problem;
  std::string model_file, topology_file;  // as the user named them
  std::string placement;                  // how ranks lie on devices, in words
};

struct PlanReport {
  Understood understood;
  SearchOptions options;
  SearchResult result;
  std::vector<std::string> reasons;  // why the first plan beats the next ones
};

struct SimulateReport {
  Understood understood;
  PlanDocument document;
  SimulationReport simulation;  // with its timeline
  Bytes saved_per_layer;        // activations of a layer and micro-batch
  bool fits = true;
  Bytes limit;                        // memory that may be used
  std::vector<Violation> violations;  // when not empty, the plan was not simulated
};

/// Legal and fitting, or every rule that is broken.
struct CheckReport {
  Understood understood;
  PlanDocument document;
  std::vector<Violation> violations;   // memory among them
  std::optional<MemoryReport> memory;  // when the plan is legal
  Bytes limit;                         // memory that may be used
};

/// One or two settings of a plan changed, everything else as it was.
struct Change {
  std::string what;  // "tp 8 -> 4, dp 16 -> 32"
  ParallelPlan plan;
  SimulationReport report;
  double gain = 0;  // of step time, relative: 0.05 is 5 % faster
  bool fits = true;
};

struct ExplainReport {
  Understood understood;
  PlanDocument document;
  SimulationReport simulation;
  bool fits = true;
  Bytes limit;
  std::vector<Violation> violations;   // when not empty, there is nothing to explain
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
