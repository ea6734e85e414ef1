#include "simulator/calibration/validation.hpp"

#include <gtest/gtest.h>

namespace tpplan {
namespace {

ValidationReport report() {
  const std::filesystem::path root(TPPLAN_SOURCE_DIR);
  return validate(read_measured_runs(root / "tests/validation/runs", root / "topologies/devices"),
                  {.dense_only = true});
}

TEST(Validation, MeasuredRunsArePredictedWithinTheStatedErrors) {
  // What the README promises for dense models: step time to 10 % on average over sources, memory to 8 % where
  // the peak of the allocator is known, 85 % of the out-of-memory runs found with less than 10 % false
  // alarms.
  const ValidationReport r = report();
  EXPECT_EQ(r.sources.size(), 9U);
  EXPECT_LE(r.macro_error, 0.10);
  for (const auto& [name, accuracy] : r.sources) EXPECT_EQ(accuracy.predicted, accuracy.runs) << name;
  EXPECT_LE(r.sources.at("simumax").memory_error, 0.08);
  const Accuracy& oom = r.sources.at("hagemann2024");
  EXPECT_GE(oom.oom_found, 0.85 * oom.oom_runs);
  EXPECT_LT(oom.oom_false, 0.10 * oom.fitting_runs);
}

TEST(Validation, RunsThatAreNotModelledAreListedWithTheirReason) {
  const ValidationReport r = report();
  EXPECT_EQ(r.unmodelled.count("experts"), 1U);
  EXPECT_EQ(r.unmodelled.count("context_parallel"), 1U);
  EXPECT_EQ(r.unmodelled.count("precision"), 1U);
}

}  // namespace
}  // namespace tpplan
