#pragma once

#include <vector>

#include "simulator/model/model_spec.hpp"
#include "simulator/plan/parallel_plan.hpp"

namespace tpplan {

/// Coordinates of a rank on the axes of its plan.
struct RankPosition {
  int tp = 0, dp = 0, pp = 0;
  bool operator==(const RankPosition&) const = default;
};
[[nodiscard]] RankPosition position_of(const ParallelPlan& plan, int rank);
[[nodiscard]] int rank_at(const ParallelPlan& plan, const RankPosition& position);

/// World ranks of the groups that one rank belongs to, each in the order of its axis.
struct RankGroups {
  std::vector<int> tensor, data, pipeline;
  std::vector<int> kv_copies;  // ranks of the tensor group that hold the same key and value heads
  std::vector<int> ends;       // first and last pipeline rank, which hold the two copies of a tied embedding
};
[[nodiscard]] RankGroups groups_of(const ParallelPlan& plan, const ModelSpec& model, int rank);

}  // namespace tpplan
