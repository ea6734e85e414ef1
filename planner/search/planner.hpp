#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "simulator/engine/simulation.hpp"

namespace tpplan {

enum class Objective { throughput, memory };
inline constexpr std::array<std::string_view, 2> kObjectiveNames{"throughput", "memory"};

/// Which part of the space to search. Empty lists mean "all".
struct SearchOptions {
  int top = 10;
  std::vector<int> tp, pp, dp, vpp, micro_batch;  // fixed values
  std::vector<bool> sequence_parallel;
  std::vector<ZeroStage> zero;
  std::vector<ScheduleKind> schedule;
  std::vector<Recompute> recompute;
  double memory_margin = 0.05;  // share of the device that must stay free
  Objective objective = Objective::throughput;
  int threads = 0;  // 0: all of the machine's
};

struct RankedPlan {
  ParallelPlan plan;
  SimulationReport report;
};

struct SearchResult {
  std::vector<RankedPlan> plans;           // best first
  std::uint64_t space = 0;                 // combinations of the options above
  std::map<Rule, std::uint64_t> rejected;  // by reason, memory included
  std::map<Rule, Violation> examples;      // one of each, with numbers
  std::uint64_t pruned = 0;                // their lower bound is above the worst plan shown
  std::uint64_t simulated = 0;
  Seconds wall;
  std::optional<RankedPlan> nearest;  // when nothing fits: the legal plan that needs the least memory
};

/// Share of the space decided so far, 0 .. 1. Called from any thread.
using Progress = std::function<void(double)>;

/// The best plans of the space, exactly as exhaustive simulation would rank them: by step time (or peak
/// memory), ties by the order of enumeration. The same plans and figures for any number of threads. Stops
/// early, with what it has, when asked to.
[[nodiscard]] SearchResult search(const Problem& problem, const CostModel& model,
                                  const SearchOptions& options, const std::stop_token& stop = {},
                                  const Progress& progress = {});

}  // namespace tpplan
