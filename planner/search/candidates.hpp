#pragma once

#include <cstdint>
#include <map>
#include <stop_token>
#include <vector>

#include "planner/space/space.hpp"

namespace tpplan {

/// Costs that many plans share, computed once: blocks by LayerKey, groups by degrees and axis order.
/// Read-only afterwards.
class SharedCosts {
 public:
  SharedCosts(const Problem& problem, const CostModel& model, const SearchOptions& options,
              const Space& space);

  struct Blocks {
    LayerCosts costs;
    LayerMemory memory;
  };
  [[nodiscard]] const Blocks& blocks(const LayerKey& key) const { return blocks_.at(key); }
  [[nodiscard]] const PlanPaths& paths(std::size_t degrees, AxisOrder order) const {
    return paths_[degrees * 2 + static_cast<std::size_t>(order)];
  }

 private:
  std::map<LayerKey, Blocks> blocks_;
  std::vector<PlanPaths> paths_;
};

/// A legal plan that fits, before simulation: small, because there may be hundreds of thousands.
struct Candidate {
  Seconds bound;  // of the step time
  Bytes peak_memory;
  std::uint64_t order = 0;    // of enumeration: breaks ties
  std::uint32_t degrees = 0;  // index into Space::degrees
  std::int32_t micro_batch = 1;
  std::int16_t vpp = 1;
  bool sequence_parallel = false;
  ZeroStage zero = ZeroStage::none;
  Recompute recompute = Recompute::none;
  ScheduleKind schedule = ScheduleKind::gpipe;
  AxisOrder axis_order = AxisOrder::tp_cp_dp_pp;
};

struct Enumeration {
  std::vector<Candidate> candidates;  // in order of enumeration
  std::map<Rule, std::uint64_t> rejected;
  std::map<Rule, Violation> examples;
  std::optional<Candidate> smallest;  // the legal plan that needs the least memory, whether it fits or not
};

/// The plan that a candidate stands for, stages balanced by cost.
[[nodiscard]] ParallelPlan plan_of(const Problem& problem, const Space& space, const SharedCosts& shared,
                                   const Candidate& candidate);

/// Walks the whole space in parallel: rules, then memory, then the lower bound of what is left.
[[nodiscard]] Enumeration enumerate(const Problem& problem, const CostModel& model,
                                    const SearchOptions& options, const Space& space,
                                    const SharedCosts& shared, const std::stop_token& stop,
                                    const std::function<void(double)>& progress);

}  // namespace tpplan
