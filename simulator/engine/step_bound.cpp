#include <algorithm>

#include "simulator/engine/simulation.hpp"

namespace tpplan {

// Symbols: F_i, B_i forward and backward of stage i for one micro-batch, blocked transfers included; w_i what
// is left of the transfer i to i + 1; m micro-batches; rank r holds the stages r, r + pp, ...
//
// Rank r cannot start before sum_{i<r} (F_i + w_i); it works m sum (F + B) over its stages; after its last
// backward, of stage r, the stages below still need sum_{i<r} (B_i + w_i). Under 1F1B at most k = pp - r
// micro-batches are in flight on rank r, so each takes at least the round trip through the stages above it
// divided by k.
Seconds step_lower_bound(const ParallelPlan& plan, const PlanCosts& costs) {
  const double m = static_cast<double>(plan.microbatches());
  const int stages = static_cast<int>(plan.stages.size());
  const auto transfer = [&](int i) {
    return costs.transfer.empty() || i < 0 || i + 1 >= stages ? Seconds{}
                                                              : costs.transfer[static_cast<std::size_t>(i)];
  };
  const auto forward = [&](int i) {
    return costs.stages[static_cast<std::size_t>(i)].forward.total() * costs.straggler +
           transfer(i - 1) * costs.transfer_blocks;
  };
  const auto backward = [&](int i) {
    return costs.stages[static_cast<std::size_t>(i)].backward.total() * costs.straggler +
           transfer(i) * costs.transfer_blocks;
  };
  const auto latency = [&](int i) { return transfer(i) * (1 - costs.transfer_blocks); };
  const bool zero3 = costs.layer.gather.value() > 0;

  Seconds ready{};  // earliest gradient norm
  Seconds above{};  // round trip through the stages from r to the last, for 1F1B
  if (plan.schedule == ScheduleKind::one_f_one_b)
    for (int i = 0; i < stages; ++i) above += forward(i) + backward(i) + 2 * latency(i);
  Seconds before{}, after{};
  for (int r = 0; r < plan.pp; ++r) {
    Seconds work{};
    Seconds largest_backward{};
    for (int i = r; i < stages; i += plan.pp) {
      work += forward(i) + backward(i);
      largest_backward = std::max(largest_backward, backward(i));
    }
    const Seconds busy = before + m * work;
    Seconds rank_ready = busy + after;
    if (plan.schedule == ScheduleKind::one_f_one_b) {
      const double in_flight = plan.pp - r;
      const std::int64_t full_rounds = (plan.microbatches() - 1) / (plan.pp - r);
      const double rounds = static_cast<double>(full_rounds);
      if (m > in_flight) rank_ready = std::max(rank_ready, before + (rounds + 1) * above + after);
      above -= forward(r) + backward(r) + 2 * latency(r);
    }
    const RankCosts& rank = costs.ranks[static_cast<std::size_t>(r)];
    if (zero3) {
      // One stream carries all gathers and reductions of the rank.
      Seconds moved{};
      for (int i = r; i < stages; i += plan.pp) {
        const Stage& stage = plan.stages[static_cast<std::size_t>(i)];
        const double gathers = costs.gathers_twice ? 2 : 1;
        moved += (costs.layer.gather * gathers + costs.layer.reduce) * stage.layers;
        if (stage.embedding) moved += costs.embedding.gather * gathers + costs.embedding.reduce;
        if (stage.head) moved += costs.head.gather * gathers + costs.head.reduce;
      }
      rank_ready = std::max(rank_ready, costs.reduces_overlap ? before + m * moved : busy + m * moved);
    } else if (!costs.reduces_overlap) {
      rank_ready = std::max(rank_ready, busy + rank.reduce * (plan.zero == ZeroStage::gradients ? m : 1));
    } else if (plan.zero == ZeroStage::gradients) {
      rank_ready = std::max(rank_ready, before + m * rank.reduce);
    } else if (plan.vpp == 1) {
      // The first bucket is there no earlier than the last backward begins.
      rank_ready = std::max(rank_ready, busy - largest_backward + rank.reduce);
    }
    ready = std::max(ready, rank_ready);
    before += forward(r) + latency(r);
    after += backward(r) + latency(r);
  }
  if (costs.shared_cores > 0) {
    // All ranks' compute goes through the shared cores.
    Seconds work{};
    for (int i = 0; i < stages; ++i) work += m * (forward(i) + backward(i));
    for (const RankCosts& rank : costs.ranks) work += rank.optimizer;
    return std::max(ready, work * (plan.world() / plan.pp / costs.shared_cores));
  }
  Seconds end{};
  for (const RankCosts& rank : costs.ranks)
    end = std::max(end, rank.optimizer + (costs.gathers_overlap ? Seconds{} : rank.gather));
  return ready + costs.gradient_norm + end + costs.fixed;
}

}  // namespace tpplan
