#include "planner/workbench/experiment.hpp"

#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "planner/workbench/data_files.hpp"
#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

/// A file of its own for each process, removed at the end.
class ExperimentFile {
 public:
  explicit ExperimentFile(const std::string& text) { std::ofstream(path_) << text; }
  ExperimentFile(const ExperimentFile&) = delete;
  ExperimentFile& operator=(const ExperimentFile&) = delete;
  ~ExperimentFile() { std::filesystem::remove(path_); }
  [[nodiscard]] Settings settings() const {
    Settings settings;
    apply_experiment(path_, settings);
    return settings;
  }
  [[nodiscard]] std::string refusal() const {
    try {
      (void)settings();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "accepted";
  }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / fmt::format("tpplan_experiment_{}.yaml", getpid());
};

TEST(Experiment, SetsWhatTheFlagsOfTheSameNamesSet) {
  const Settings s = ExperimentFile(
                         "model: m.yaml\ngpus: 16\nglobal-batch: 4M tokens\nmemory-margin: 5%\nzero: [0, 1]\n"
                         "schedule: gpipe,1f1b\ncausal-flops: yes\nfix: {tp: 2, pp: [1, 4], sp: on}\n")
                         .settings();
  EXPECT_EQ(s.model, "m.yaml");
  EXPECT_EQ(s.gpus, 16);
  EXPECT_EQ(s.global_batch->amount, 4 << 20);
  EXPECT_TRUE(s.global_batch->in_tokens);
  EXPECT_EQ(s.search.memory_margin, 0.05);
  EXPECT_THAT(s.search.zero, ElementsAre(ZeroStage::none, ZeroStage::optimizer));
  EXPECT_THAT(s.search.schedule, ElementsAre(ScheduleKind::gpipe, ScheduleKind::one_f_one_b));
  EXPECT_TRUE(s.causal_flops);
  EXPECT_THAT(s.search.tp, ElementsAre(2));
  EXPECT_THAT(s.search.pp, ElementsAre(1, 4));
  EXPECT_THAT(s.search.sequence_parallel, ElementsAre(true));
}

TEST(Experiment, FixMayBeAListOrOneText) {
  EXPECT_THAT(ExperimentFile("fix: [tp=2, dp=4]\n").settings().search.dp, ElementsAre(4));
  EXPECT_THAT(ExperimentFile("fix: tp=2\n").settings().search.tp, ElementsAre(2));
}

TEST(Experiment, MistakesHaveTheirPlace) {
  EXPECT_THAT(ExperimentFile("model: m\ngpus: eight\n").refusal(),
              EndsWith(".yaml:2:7: gpus: 'eight' must be a whole number from 1 to 16777216"));
  EXPECT_THAT(ExperimentFile("fix: {tp: 2, zero: [0, 4]}\n").refusal(),
              HasSubstr(":1:20: fix.zero: '4' must be one of 0, 1, 2, 3"));
  EXPECT_THAT(ExperimentFile("fix: {tq: 2}\n").refusal(), HasSubstr("did you mean 'tp'?"));
  EXPECT_THAT(ExperimentFile("gpus: [8, 16]\n").refusal(),
              HasSubstr(":1:7: gpus: takes one value, not a list"));
  EXPECT_THAT(ExperimentFile("model: {a: b}\n").refusal(), HasSubstr(":1:8: model: must be a single value"));
  EXPECT_THAT(ExperimentFile("modle: m\n").refusal(), HasSubstr("did you mean 'model'?"));
  EXPECT_THAT(ExperimentFile("json: true\n").refusal(), HasSubstr("unknown key 'json'"));
  EXPECT_THAT(ExperimentFile("- 1\n").refusal(), HasSubstr("must be a map"));
}

TEST(Experiment, TheShippedOnesAreRead) {
  const DataFiles files{TPPLAN_SOURCE_DIR};
  const std::vector<std::string> names = shipped_names(files.experiments());
  EXPECT_FALSE(names.empty());
  for (const std::string& name : names) {
    Settings settings;
    apply_experiment(find_file(name, files.experiments(), "experiment"), settings);
    EXPECT_GT(settings.gpus, 0) << name;
    EXPECT_NO_THROW((void)find_file(settings.model, files.models(), "model")) << name;
    EXPECT_NO_THROW((void)find_file(settings.topology, files.topologies(), "topology")) << name;
  }
}

}  // namespace
}  // namespace tpplan
