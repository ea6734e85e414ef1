#include "simulator/plan/ranks.hpp"

#include <algorithm>

namespace tpplan {

RankPosition position_of(const ParallelPlan& plan, int rank) {
  return {rank % plan.tp, rank / plan.dp_stride() % plan.dp, rank / plan.pp_stride() % plan.pp};
}

int rank_at(const ParallelPlan& plan, const RankPosition& position) {
  return position.tp + position.dp * plan.dp_stride() + position.pp * plan.pp_stride();
}

RankGroups groups_of(const ParallelPlan& plan, const ModelSpec& model, int rank) {
  const RankPosition own = position_of(plan, rank);
  RankGroups groups;
  for (int i = 0; i < plan.tp; ++i) groups.tensor.push_back(rank_at(plan, {i, own.dp, own.pp}));
  for (int i = 0; i < plan.dp; ++i) groups.data.push_back(rank_at(plan, {own.tp, i, own.pp}));
  for (int i = 0; i < plan.pp; ++i) groups.pipeline.push_back(rank_at(plan, {own.tp, own.dp, i}));
  const int copies = std::max(1, plan.tp / model.kv_heads);
  for (int i = 0; i < copies; ++i)
    groups.kv_copies.push_back(groups.tensor[static_cast<std::size_t>(own.tp / copies * copies + i)]);
  groups.ends = {groups.pipeline.front(), groups.pipeline.back()};
  return groups;
}

}  // namespace tpplan
