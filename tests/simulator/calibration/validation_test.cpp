#include "simulator/calibration/validation.hpp"

#include <fstream>
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

TEST(Validation, UnknownDevicesAndFrameworksAreTakenAsTheirRelativesAndSaySo) {
  const std::filesystem::path root(TPPLAN_SOURCE_DIR);
  const auto folder = std::filesystem::temp_directory_path() / "tpplan_validation_test";
  std::filesystem::create_directories(folder);
  const auto record = [](const char* id, const char* gpu, const char* framework) {
    return std::string("- id: ") + id +
           "\n  model: {name: m, layers: 4, hidden: 1024, heads: 16, kv_heads: 16, ffn: 4096, gated_mlp: "
           "false, vocab: "
           "8192, seq: 1024, tied_embeddings: true, attention: flash}\n  cluster: {gpu: " +
           gpu +
           ", gpus: 8, gpus_per_node: 8, nvlink_domain: 8, network_gbit_per_node: 800}\n  plan: {tp: 1, pp: "
           "1, vpp: 1, "
           "dp: 8, cp: 1, ep: 1, zero: 1, sequence_parallel: false, recompute: none, micro_batch: 1, "
           "global_batch: 8, "
           "precision: bf16}\n  runtime: {framework: " +
           framework + "}\n  measured: {step_s: 1}\n";
  };
  std::ofstream(folder / "runs.yaml")
      << record("a", "H200-SXM5-141GB", "megatron-lm-2023") << record("b", "MI300X", "nemo");
  const ValidationReport r = validate(read_measured_runs(folder, root / "topologies/devices"), {});
  std::filesystem::remove_all(folder);
  EXPECT_EQ(r.taken_as.at("device H200-SXM5-141GB as H200-SXM-141GB"), 1);
  EXPECT_EQ(r.taken_as.at("framework megatron-lm-2023 as megatron-lm-2022"), 1);
  EXPECT_EQ(r.predictions.count("a"), 1U);
  EXPECT_EQ(r.unmodelled.at("device MI300X"), std::vector<std::string>{"b"});
}

}  // namespace
}  // namespace tpplan
