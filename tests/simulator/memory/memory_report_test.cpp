#include "simulator/memory/memory_report.hpp"

#include <gtest/gtest.h>

#include "tests/support/problems.hpp"

namespace tpplan {
namespace {

using testing::plan_of;
using testing::small_problem;

/// Megatron-LM of 2022: naive attention, dropout, 16-bit activations.
Problem korthikanti() {
  Problem problem = small_problem(8, 8, 64);
  problem.runtime = runtime_profile("megatron-lm-2022").value();
  return problem;
}

constexpr double kTokens = 1024, kHidden = 1024, kHeads = 16, kSequence = 1024;

TEST(ActivationMemory, EqualsThePublishedFormulas) {
  // Korthikanti et al., arXiv 2205.05198, table 2, bytes per layer: sbh(34 + 5as/h) on one rank;
  // sbh(10 + 24/t + 5as/(ht)) with tensor parallelism; all of it over t with sequence parallelism.
  const Problem problem = korthikanti();
  const double scores = 5 * kHeads * kSequence / kHidden;
  const auto saved = [&](int tp, bool split, Recompute recompute) {
    return layer_memory(problem, tp, split, 1, recompute).saved.value() / (kTokens * kHidden);
  };
  EXPECT_DOUBLE_EQ(saved(1, false, Recompute::none), 34 + scores);
  EXPECT_DOUBLE_EQ(saved(4, false, Recompute::none), 10 + 24.0 / 4 + scores / 4);
  EXPECT_DOUBLE_EQ(saved(4, true, Recompute::none), (34 + scores) / 4);
  EXPECT_DOUBLE_EQ(saved(4, true, Recompute::selective), 34.0 / 4);
  EXPECT_DOUBLE_EQ(saved(1, false, Recompute::full), 2);
}

TEST(ActivationMemory, FlashAttentionKeepsNoScores) {
  Problem problem = korthikanti();
  problem.runtime.attention = AttentionKernel::flash2;
  // 34 sbh and four bytes of log-sum-exp per row and head.
  EXPECT_DOUBLE_EQ(layer_memory(problem, 1, false, 1, Recompute::none).saved.value(),
                   kTokens * (34 * kHidden + 4 * kHeads));
}

TEST(MemoryReport, MixedPrecisionAdamTakesEighteenBytesAParameter) {
  // 2 weights + 4 gradient + 12 fp32 master and moments; ZeRO 1, 2, 3 divide them one after another by dp
  // = 8.
  Problem problem = small_problem(4, 8, 64);
  ParallelPlan plan = plan_of(problem, 1, 1, 8);
  const BlockParameters blocks = block_parameters(problem.model, 1);
  const double parameters = static_cast<double>(count_parameters(problem.model).total());
  const LayerMemory layer = layer_memory(problem, 1, false, 1, Recompute::none);
  const auto state = [&](ZeroStage zero) {
    plan.zero = zero;
    const StageMemory memory = memory_report(problem, plan, blocks, layer).ranks.front();
    return (memory.of(MemoryCategory::weights) + memory.of(MemoryCategory::gradients) +
            memory.of(MemoryCategory::optimizer_state))
               .value() /
           parameters;
  };
  EXPECT_NEAR(state(ZeroStage::none), 18, 1e-9);
  EXPECT_NEAR(state(ZeroStage::optimizer), 6 + 12.0 / 8, 1e-9);
  EXPECT_NEAR(state(ZeroStage::gradients), 2 + 16.0 / 8, 1e-9);
  EXPECT_NEAR(state(ZeroStage::weights), 18.0 / 8, 1e-9);
}

TEST(MemoryReport, FirstStageHoldsOneMicroBatchForEachStage) {
  // 1F1B on 4 ranks, 2 layers each: 4, 3, 2, 1 micro-batches in flight.
  const Problem problem = small_problem(8, 4, 64);
  const ParallelPlan plan = plan_of(problem, 1, 4, 1);
  const LayerMemory layer = layer_memory(problem, 1, false, 1, Recompute::none);
  const MemoryReport report = memory_report(problem, plan, block_parameters(problem.model, 1), layer);
  for (int rank = 0; rank < 4; ++rank) {
    const Bytes embedding = rank == 0 ? layer.embedding * 4 : Bytes{0};
    EXPECT_EQ(report.ranks[static_cast<std::size_t>(rank)].of(MemoryCategory::activations),
              layer.saved * (2.0 * (4 - rank)) + embedding);
  }
}

TEST(LayersInFlight, ClosedFormEqualsReplayingTheSchedule) {
  const Problem problem = small_problem(48, 4, 64);
  for (const int pp : {1, 2, 4})
    for (const int vpp : {1, 2, 3, 4})
      for (const int m : {4, 8, 16})
        for (const ScheduleKind kind :
             {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved}) {
          if ((kind == ScheduleKind::interleaved) != (vpp > 1) || (vpp > 1 && pp == 1)) continue;
          ParallelPlan plan = plan_of(problem, 1, pp, 1);
          plan.vpp = vpp;
          plan.schedule = kind;
          plan.global_batch = m;
          plan.stages = even_stages(48, pp, vpp);
          const std::vector<int> replayed = peak_in_flight(make_schedule(kind, pp, vpp, m));
          for (int rank = 0; rank < pp; ++rank)
            EXPECT_EQ(layers_in_flight(plan, rank),
                      replayed[static_cast<std::size_t>(rank)] * 48.0 / (pp * vpp))
                << "pp " << pp << " vpp " << vpp << " m " << m << " rank " << rank;
        }
}

TEST(MemoryReport, MaximumOverStagesCounts) {
  const Problem problem = small_problem(8, 4, 64);
  const ParallelPlan plan = plan_of(problem, 1, 4, 1, 4);
  const MemoryReport report = memory_report(problem, plan, block_parameters(problem.model, 1),
                                            layer_memory(problem, 1, false, 4, Recompute::none));
  Bytes most{};
  for (const StageMemory& rank : report.ranks) most = std::max(most, rank.total());
  EXPECT_EQ(report.peak(), most);
}

}  // namespace
}  // namespace tpplan
