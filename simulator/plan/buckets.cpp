#include "simulator/plan/buckets.hpp"

#include <algorithm>
#include <cmath>

namespace tpplan {

int stage_blocks(const Stage& stage) {
  return stage.layers + (stage.embedding ? 1 : 0) + (stage.head ? 1 : 0);
}

int rank_buckets(const RuntimeOptions& run, Bytes bucket, double parameters) {
  if (!run.gradient_bucketing) return 1;
  return std::max(1, static_cast<int>(std::ceil(Bytes{parameters * run.reduce_bytes} / bucket)));
}

int stage_buckets(const ParallelPlan& plan, const Stage& stage, double stage_parameters,
                  double rank_parameters, int rank_buckets) {
  const int blocks = std::max(1, stage_blocks(stage));
  if (plan.zero == ZeroStage::weights) return blocks;
  const double share = stage_parameters / rank_parameters;
  return std::clamp(static_cast<int>(std::lround(rank_buckets * share)), 1, blocks);
}

}  // namespace tpplan
