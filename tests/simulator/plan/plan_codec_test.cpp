#include "simulator/plan/plan_codec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulator/plan/runtime_codec.hpp"
#include "tests/support/problems.hpp"

namespace tpplan {
namespace {

using ::testing::HasSubstr;

PlanDocument document() {
  const Problem problem = testing::small_problem(8, 16, 64);
  PlanDocument d{"model.yaml", "dgx-a100-80g", 16, testing::plan_of(problem, 2, 2, 4, 2)};
  d.plan.zero = ZeroStage::gradients;
  d.plan.sequence_parallel = true;
  d.plan.vpp = 2;
  d.plan.schedule = ScheduleKind::interleaved;
  d.plan.recompute = Recompute::selective;
  d.plan.order = AxisOrder::tp_cp_pp_dp;
  d.plan.stages = even_stages(8, 2, 2);
  d.plan.runtime.fused_norm = false;
  d.plan.runtime.launch = microseconds(7.25);
  d.plan.runtime.attention = AttentionKernel::torch;
  return d;
}

TEST(PlanCodec, RoundTripIsExact) {
  const PlanDocument before = document();
  EXPECT_EQ(plan_from(parse_document(plan_to_yaml(before), "plan.yaml")), before);
}

TEST(PlanCodec, NamesOfFilesMayHoldAnything) {
  PlanDocument before = document();
  before.model = "C:\\my \"models\"/it's #1: a\n\tb.yaml";
  EXPECT_EQ(plan_from(parse_document(plan_to_yaml(before), "plan.yaml")), before);
}

TEST(PlanCodec, EveryFrameworkRoundTrips) {
  for (const std::string& name : runtime_profile_names()) {
    const RuntimeOptions options = runtime_profile(name).value();
    EXPECT_EQ(runtime_from(parse_document(runtime_to_yaml(options, 0), "r.yaml")), options) << name;
  }
}

TEST(PlanCodec, MistakesHavePlaces) {
  const auto error_of = [](std::string text, const std::string& from, const std::string& to) -> std::string {
    text.replace(text.find(from), from.size(), to);
    try {
      (void)plan_from(parse_document(text, "plan.yaml"));
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string text = plan_to_yaml(document());
  EXPECT_THAT(error_of(text, "tp: 2", "tp: 0"), HasSubstr("plan.yaml:5:5: tp: 0 is outside 1"));
  EXPECT_THAT(error_of(text, "zero: 2", "zero: 4"), HasSubstr("4 is outside 0 .. 3"));
  EXPECT_THAT(error_of(text, "recompute: selective", "recompute: selectve"),
              HasSubstr("did you mean 'selective'?"));
  EXPECT_THAT(error_of(text, "micro_batch", "micro_bach"), HasSubstr("did you mean 'micro_batch'?"));
  EXPECT_THAT(error_of(text, "framework: megatron-core", "framework: megatron-cor"),
              HasSubstr("did you mean 'megatron-core'?"));
  EXPECT_THAT(error_of(text, "layers: 2", "layers: 99999999999999999999"),
              HasSubstr("is outside 0 .. 1000000"));
}

}  // namespace
}  // namespace tpplan
