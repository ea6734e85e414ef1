#include "planner/workbench/workbench.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "planner/workbench/json.hpp"
#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class WorkbenchTest : public ::testing::Test {
 protected:
  WorkbenchTest() { fs::create_directory(folder); }
  ~WorkbenchTest() override { fs::remove_all(folder); }

  [[nodiscard]] Settings settings(const std::string& model, int gpus) const {
    Settings s;
    s.model = model;
    s.gpus = gpus;
    s.output = (folder / "plan.yaml").string();
    s.search.threads = 1;
    return s;
  }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }

  fs::path folder = fs::temp_directory_path() / fmt::format("tpplan_workbench_{}", getpid());
  Workbench workbench{DataFiles{TPPLAN_SOURCE_DIR}};
};

TEST_F(WorkbenchTest, ThePlanWrittenIsTheFirstAndSimulatesToTheSameStep) {
  Settings s = settings("tiny-gpt2", 4);
  const PlanReport report = workbench.plan(s);
  s = {};
  s.plan = (folder / "plan.yaml").string();
  const SimulateReport again = workbench.simulate(s);
  EXPECT_EQ(again.document.plan, report.result.plans.front().plan);
  EXPECT_EQ(again.simulation.step, report.result.plans.front().report.step);
  EXPECT_TRUE(again.fits);
}

TEST_F(WorkbenchTest, JsonCarriesTheFiguresUnrounded) {
  const PlanReport report = workbench.plan(settings("tiny-gpt2", 4));
  const auto json = nlohmann::json::parse(to_json(report));
  ASSERT_EQ(json["plans"].size(), report.result.plans.size());
  for (std::size_t i = 0; i < report.result.plans.size(); ++i) {
    const RankedPlan& ranked = report.result.plans[i];
    EXPECT_EQ(json["plans"][i]["step_s"], ranked.report.step.value());
    EXPECT_EQ(json["plans"][i]["plan"]["tp"], ranked.plan.tp);
    double sum = 0;  // the waterfall adds up to the step, but for rounding of a dozen terms
    for (const auto& part : json["plans"][i]["breakdown_s"]) sum += part.get<double>();
    EXPECT_NEAR(sum, ranked.report.step.value(), 1e-9 * sum);
  }
  EXPECT_EQ(json["search"]["space"], report.result.space);
}

TEST_F(WorkbenchTest, NothingIsWrittenWhenNothingFitsOrTheSearchWasStopped) {
  EXPECT_TRUE(workbench.plan(settings("gpt3-175b", 8)).result.plans.empty());
  EXPECT_EQ(files(), 0U);
  std::stop_source stop;
  const PlanReport stopped = workbench.plan(settings("tiny-gpt2", 4), stop.get_token(), [&](double share) {
    if (share > 0.5) stop.request_stop();  // the second half simulates: by now there is a best plan so far
  });
  EXPECT_FALSE(stopped.result.plans.empty());
  EXPECT_EQ(files(), 0U);
}

TEST_F(WorkbenchTest, ProgressIsAShareOfTheWhole) {
  int calls = 0;
  (void)workbench.plan(settings("tiny-gpt2", 4), {}, [&](double share) {
    EXPECT_GE(share, 0);
    EXPECT_LE(share, 1);
    ++calls;
  });
  EXPECT_GT(calls, 0);
}

TEST_F(WorkbenchTest, AnIllegalPlanIsAValueWithItsRulesForEveryVerb) {
  (void)workbench.plan(settings("tiny-gpt2", 4));
  Settings s;
  s.plan = (folder / "plan.yaml").string();
  s.gpus = 3;  // the plan is for 4
  EXPECT_EQ(workbench.check(s).violations.front().rule, Rule::world_size);
  EXPECT_EQ(workbench.simulate(s).violations.front().rule, Rule::world_size);
  EXPECT_EQ(workbench.explain(s).violations.front().rule, Rule::world_size);
}

TEST_F(WorkbenchTest, ABatchInTokensMustBeWholeSamples) {
  Settings s = settings("tiny-gpt2", 4);  // samples of 128 tokens
  s.global_batch = Batch{.amount = 300, .in_tokens = true};
  try {
    (void)workbench.plan(s);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the nearest are 256 and 384"));  // 2 x 128 and 3 x 128
  }
}

TEST_F(WorkbenchTest, AFileOfThatPathComesBeforeAShippedOne) {
  const fs::path shipped = fs::path(TPPLAN_SOURCE_DIR) / "configs" / "models";
  EXPECT_EQ(find_file("gpt10b", shipped, "model"), shipped / "gpt10b.yaml");
  EXPECT_EQ(find_file("gpt10b.yaml", shipped, "model"), shipped / "gpt10b.yaml");
  const fs::path own = folder / "gpt10b.yaml";
  std::ofstream{own} << "own";
  EXPECT_EQ(find_file(own.string(), shipped, "model"), own);
  const fs::path before = fs::current_path();
  fs::current_path(folder);
  EXPECT_EQ(find_file("gpt10b.yaml", shipped, "model"), "gpt10b.yaml");
  fs::current_path(before);
}

TEST_F(WorkbenchTest, DataFilesAreWhereTheEnvironmentSaysOrBesideTheProgramOrInTheSourceTree) {
  const fs::path program = folder / "bin" / "tpplan";
  fs::create_directories(program.parent_path());
  std::ofstream{program} << "program";
  EXPECT_EQ(find_data_files(program).root, fs::path(TPPLAN_SOURCE_DIR));
  fs::create_directories(folder / "share" / "tpplan" / "topologies");
  EXPECT_EQ(find_data_files(program).root, fs::canonical(folder) / "share" / "tpplan");
  ASSERT_EQ(setenv("TPPLAN_DATA", folder.c_str(), 1), 0);
  EXPECT_THROW((void)find_data_files(program), ConfigError);  // no topologies/ in it
  fs::create_directories(folder / "topologies");
  EXPECT_EQ(find_data_files(program).root, folder);
  unsetenv("TPPLAN_DATA");
}

}  // namespace
}  // namespace tpplan
