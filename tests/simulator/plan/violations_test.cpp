#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/problems.hpp"

namespace tpplan {
namespace {

using ::testing::HasSubstr;
using testing::plan_of;
using testing::small_problem;

/// The violation of `rule`; fails when there is none.
Violation broken(const Problem& problem, const ParallelPlan& plan, Rule rule) {
  for (Violation& violation : violations(problem, plan))
    if (violation.rule == rule) return violation;
  ADD_FAILURE() << "no " << kRuleNames[static_cast<std::size_t>(rule)];
  return {};
}

TEST(Violations, ALegalPlanHasNone) {
  const Problem problem = small_problem(8, 16, 64);
  EXPECT_TRUE(violations(problem, plan_of(problem, 2, 2, 4)).empty());
}

TEST(Violations, WorldSize) {
  const Problem problem = small_problem(8, 16, 64);
  const Violation v = broken(problem, plan_of(problem, 2, 2, 2), Rule::world_size);
  EXPECT_EQ(v.message, "tp 2 x cp 1 x dp 2 x pp 2 = 8, and the cluster has 16 GPUs");
  EXPECT_EQ(v.remedy, "dp 4");
}

TEST(Violations, HeadsNameTheNearestDegrees) {
  Problem problem = small_problem(8, 12, 64);  // 16 heads
  const Violation v = broken(problem, plan_of(problem, 3, 1, 4), Rule::heads);
  EXPECT_EQ(v.message, "tp 3 does not divide 16 heads");
  EXPECT_EQ(v.remedy, "tp 2 or 4");
}

TEST(Violations, KvHeadsMayBeReplicatedButNotCut) {
  Problem problem = small_problem(8, 8, 64);
  problem.model.kv_heads = 2;
  EXPECT_TRUE(violations(problem, plan_of(problem, 8, 1, 1)).empty());  // each KV head on 4 ranks
  problem.model.heads = 24;
  problem.model.kv_heads = 6;
  EXPECT_EQ(broken(problem, plan_of(problem, 4, 1, 2), Rule::kv_heads).message,
            "tp 4 neither divides 6 KV heads nor is a multiple of them");
}

TEST(Violations, MlpWidth) {
  Problem problem = small_problem(8, 8, 64);
  problem.model.ffn = 4100;
  EXPECT_EQ(broken(problem, plan_of(problem, 8, 1, 1), Rule::hidden).message,
            "tp 8 does not divide the MLP width 4100");
}

TEST(Violations, SequenceParallelism) {
  Problem problem = small_problem(8, 8, 64);
  ParallelPlan plan = plan_of(problem, 1, 1, 8);
  plan.sequence_parallel = true;
  EXPECT_THAT(broken(problem, plan, Rule::sequence_needs_tp).message, HasSubstr("tp is 1"));
  plan = plan_of(problem, 8, 1, 1);
  plan.sequence_parallel = true;
  plan.sequence = 1022;
  EXPECT_EQ(broken(problem, plan, Rule::sequence_split).remedy, "sequence 1024");
}

TEST(Violations, StagesMustHoldEveryLayerOnce) {
  const Problem problem = small_problem(8, 4, 64);
  ParallelPlan plan = plan_of(problem, 1, 4, 1);
  plan.stages[1].layers -= 1;  // a layer lost, as integer division loses them
  EXPECT_THAT(broken(problem, plan, Rule::stages_cover).message,
              HasSubstr("4 stages hold 7 of the model's 8 layers"));
  EXPECT_THAT(broken(small_problem(3, 4, 64), plan, Rule::layers).message,
              HasSubstr("3 layers cannot fill pp 4"));
}

TEST(Violations, BatchOffersTheNearest) {
  const Problem problem = small_problem(8, 8, 100);
  const Violation v = broken(problem, plan_of(problem, 1, 1, 8, 4), Rule::batch);
  EXPECT_EQ(v.message, "global batch 100 is not micro-batch 4 x dp 8 x a whole number");
  EXPECT_EQ(v.remedy, "global batch 96 or 128");
  const Problem other = small_problem(8, 8, 48);
  EXPECT_THAT(broken(other, plan_of(other, 1, 1, 8, 4), Rule::batch).remedy, HasSubstr("micro-batch 3 or 6"));
}

TEST(Violations, Interleaving) {
  const Problem problem = small_problem(8, 4, 6);
  ParallelPlan plan = plan_of(problem, 1, 4, 1);
  plan.schedule = ScheduleKind::interleaved;
  EXPECT_THAT(broken(problem, plan, Rule::interleaving).message, HasSubstr("not pp 4 and vpp 1"));
  plan.vpp = 2;
  plan.stages = even_stages(8, 4, 2);
  EXPECT_EQ(broken(problem, plan, Rule::microbatch_multiple).remedy, "global batch 8");
  plan.schedule = ScheduleKind::one_f_one_b;
  EXPECT_THAT(broken(problem, plan, Rule::interleaving).message,
              HasSubstr("vpp 2 needs the interleaved schedule"));
}

TEST(Violations, ZeroNeedsReplicas) {
  const Problem problem = small_problem(8, 4, 64);
  ParallelPlan plan = plan_of(problem, 4, 1, 1);
  plan.zero = ZeroStage::weights;
  EXPECT_EQ(broken(problem, plan, Rule::zero_needs_dp).message,
            "ZeRO 3 shards over data-parallel ranks, and dp is 1");
}

TEST(Violations, PositionsIslandPrecisionExperts) {
  Problem problem = small_problem(8, 16, 64);
  ParallelPlan plan = plan_of(problem, 16, 1, 1);
  EXPECT_EQ(broken(problem, plan, Rule::island).remedy, "tp 8 or less, or --max-tp 16");
  problem.max_tp = 16;
  EXPECT_TRUE(violations(problem, plan).empty());
  plan.sequence = 4096;
  EXPECT_EQ(broken(problem, plan, Rule::positions).remedy, "sequence 1024 or less");
  plan.precision = Precision::fp8;
  EXPECT_EQ(broken(problem, plan, Rule::precision).remedy, "bf16, fp16 or fp32");
  problem.topology.device.peak[static_cast<std::size_t>(Precision::fp16)] = FlopsPerSecond{0};
  plan.precision = Precision::fp16;
  EXPECT_EQ(broken(problem, plan, Rule::precision).message, "round has no fp16 units");
  problem.model.moe = MoeSpec{.experts = 8};
  EXPECT_THAT(broken(problem, plan, Rule::experts).message, HasSubstr("8 experts"));
  plan.cp = 2;
  EXPECT_THAT(broken(problem, plan, Rule::context_parallel).message, HasSubstr("cp 2"));
}

TEST(TpDegrees, SayWhyNot) {
  ModelSpec model = testing::small_gpt(2);
  model.heads = 64;
  model.kv_heads = 8;
  model.vocabulary = 50257;
  const std::vector<TpDegree> degrees = tp_degrees(model, 16);
  EXPECT_EQ(degrees[2].reason, "does not divide 64 heads");
  EXPECT_EQ(degrees[7].reason, "");
  EXPECT_THAT(degrees[15].note, HasSubstr("each KV head is held by 2 ranks"));
  EXPECT_THAT(degrees[1].note, HasSubstr("vocabulary padded by 175 rows"));
}

TEST(PaddedVocabulary, IsAMultipleOf128ForEachRank) {
  EXPECT_EQ(padded_vocabulary(50257, 1), 50304);  // 393 x 128
  EXPECT_EQ(padded_vocabulary(50257, 2), 50432);  // 197 x 256
  EXPECT_EQ(padded_vocabulary(51200, 8), 51200);
}

TEST(EvenStages, TheMiddleTakesWhatIsLeft) {
  const std::vector<Stage> stages = even_stages(14, 4, 1);  // 3 + 4 + 4 + 3
  EXPECT_EQ(stages[0].layers, 3);
  EXPECT_EQ(stages[1].layers, 4);
  EXPECT_EQ(stages[2].layers, 4);
  EXPECT_EQ(stages[3].layers, 3);
  EXPECT_EQ(stages[3].first_layer, 11);
}

}  // namespace
}  // namespace tpplan
