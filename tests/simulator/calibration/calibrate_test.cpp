#include "simulator/calibration/calibrate.hpp"

#include <cmath>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "simulator/calibration/probe_result.hpp"
#include "simulator/document/document.hpp"
#include "simulator/plan/runtime_profiles.hpp"
#include "simulator/topology/topology_reader.hpp"

namespace tpplan {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

fs::path file_of(const std::string& name, const std::string& text) {
  const fs::path file = fs::path(::testing::TempDir()) / ("calibrate_" + name);
  std::ofstream(file) << text;
  return file;
}

/// Four ranks of one machine and a small model.
Problem problem() {
  Problem p;
  p.topology = read_topology(file_of("machine.yaml", R"(name: four
device:
  name: rank
  memory: 4 GiB
  memory_bandwidth: 10 GB/s
  multiprocessors: 1
  peak: {fp32: 100 GFLOP/s}
  collective_base: 0 us
node:
  gpus: 4
  cpus: 1
  links:
    - {from: "gpu[0-3]", to: cpu0, kind: inter-cpu, bandwidth: 1 GB/s, latency: 20 us, efficiency: 1}
nodes: 1
)"),
                             {});
  ModelSpec& m = p.model;
  m.layers = 4;
  m.hidden = m.ffn = 256;
  m.heads = m.kv_heads = 4;
  m.head_dim = 64;
  m.vocabulary = 1024;
  m.learned_positions = m.max_positions = 128;
  p.sequence = 128;
  p.global_batch = 16;
  p.precision = Precision::fp32;
  p.runtime = runtime_profile("tpplan").value();
  return p;
}

ParallelPlan plan_of(const Problem& p, int tp, int pp, int dp, ZeroStage zero) {
  ParallelPlan plan;
  plan.tp = tp;
  plan.pp = pp;
  plan.dp = dp;
  plan.zero = zero;
  plan.micro_batch = 2;
  plan.global_batch = p.global_batch;
  plan.sequence = p.sequence;
  plan.precision = p.precision;
  plan.runtime = p.runtime;
  plan.bucket = mebibytes(1);
  plan.stages = even_stages(p.model.layers, pp, 1);
  return plan;
}

/// What a machine would measure whose true factors are these: each task with noise, and the step.
CalibrationRun synthetic_run(const Problem& p, const ParallelPlan& plan, const Calibration& truth,
                             double noise, std::mt19937& random) {
  CalibrationRun run{p, plan, {}};
  std::normal_distribution<double> normal(1, noise);
  Problem own = p;
  own.runtime.fixed_per_step = truth.fixed_per_step;
  const CalibratedCostModel model(p.topology.device, CollectiveAlgorithm::automatic, truth);
  const SimulationReport report = simulate_plan(own, model, plan, true);
  for (std::size_t id = 0; id < report.graph->tasks().size(); ++id) {
    const Interval& ran = report.timeline->intervals[id];
    run.measured.by_label[label(report.graph->tasks()[id])] = (ran.end - ran.start) * normal(random);
  }
  run.measured.step = report.step;
  run.measured.steps = 5;
  return run;
}

TEST(Calibrate, RecoversTheFactorsOfASyntheticMachine) {
  const Problem p = problem();
  Calibration truth;
  truth.factors = {1.4, 1.0, 0.8, 1.0, 2.0, 1.0, 1.6, 1.0, 1.0};
  truth.overlap_slowdown = 0.2;
  std::mt19937 random(3);
  std::vector<CalibrationRun> runs;
  for (const auto& [tp, pp, dp, zero] : {std::tuple{4, 1, 1, ZeroStage::none},
                                         {2, 2, 1, ZeroStage::none},
                                         {1, 1, 4, ZeroStage::none},
                                         {1, 2, 2, ZeroStage::optimizer},
                                         {2, 1, 2, ZeroStage::gradients},
                                         {1, 4, 1, ZeroStage::none}})
    runs.push_back(synthetic_run(p, plan_of(p, tp, pp, dp, zero), truth, 0.02, random));
  const Calibration found = calibrate(runs, "synthetic", "a test");
  const auto factor = [&](Factor f) { return found.factors[static_cast<std::size_t>(f)]; };
  // Products are most of every task. The rest has less to say, and a pull toward 1.
  EXPECT_NEAR(factor(Factor::products), 1.4, 0.07);
  EXPECT_NEAR(factor(Factor::tensor_parallel), 2.0, 0.4);
  EXPECT_NEAR(factor(Factor::data_parallel), 1.6, 0.3);
  EXPECT_LT(found.step_error, 0.02);
  // A plan that was not used for the fit.
  const CalibrationRun other = synthetic_run(p, plan_of(p, 1, 1, 4, ZeroStage::weights), truth, 0, random);
  EXPECT_NEAR(simulate_calibrated(other, found).step / other.measured.step, 1, 0.06);
  EXPECT_GT(std::abs(simulate_calibrated(other, Calibration{}).step / other.measured.step - 1), 0.15);
}

TEST(Calibrate, SaysWhatTheRunsDidNotTell) {
  const Problem p = problem();
  std::mt19937 random(3);
  const std::vector<CalibrationRun> runs{
      synthetic_run(p, plan_of(p, 4, 1, 1, ZeroStage::none), Calibration{}, 0, random)};
  const Calibration found = calibrate(runs, "one", "a test");
  EXPECT_FALSE(found.identified[static_cast<std::size_t>(Factor::data_parallel)]);
  EXPECT_FALSE(found.identified[static_cast<std::size_t>(Factor::transfers)]);
  EXPECT_EQ(found.factors[static_cast<std::size_t>(Factor::data_parallel)], 1);
  // Work that is counted out still takes a millionth of its time.
  EXPECT_NEAR(found.factors[static_cast<std::size_t>(Factor::products)], 1, 1e-4);
}

TEST(Calibration, SurvivesItsFile) {
  Calibration c{.name = "a \"name\"",
                .source = "somewhere",
                .factors = {1.1, 0.9, 1, 1, 2, 1.5, 0.5, 1, 1},
                .tasks = 12,
                .runs = 3};
  c.identified = {true, false, true, false, true, false, false};
  c.fixed_per_step = milliseconds(2);
  c.task_error = 0.03;
  c.step_error = 0.01;
  EXPECT_EQ(read_calibration(file_of("c.yaml", calibration_to_yaml(c))), c);
  try {
    (void)read_calibration(file_of("bad.yaml", "name: x\nfactors: {product: 2}\n"));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("bad.yaml:2:20: factors.product: unknown key 'product'; did you mean 'products'?"));
  }
}

TEST(Measurements, SurviveTheirFileAndALastLineThatWasCutOff) {
  const Environment machine{"a CPU", 2, "cpu-v4", "threads", "0.1.0", 2, 1, 1};
  const Measurement m{
      3, 1, "s0.mb1.bwd", StreamKind::compute, Seconds{1.5}, Seconds{0.25}, Seconds{0.125}, Bytes{64}, 2};
  const std::string whole = to_json_line(machine) + to_json_line(m);
  const RecordedRun run = read_measurements(file_of("m.jsonl", whole + R"({"step":4,"ra)"));
  EXPECT_EQ(run.environment, machine);
  EXPECT_EQ(run.measurements, std::vector<Measurement>{m});
  try {
    (void)read_measurements(file_of("wrong.jsonl", to_json_line(machine) + "nonsense\n" + to_json_line(m)));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("wrong.jsonl:2: not a measurement"));
  }
}

TEST(Measurements, StepsAreMediansWithoutTheFirst) {
  std::vector<Measurement> all;
  const double starts[] = {0, 10, 12, 15};  // steps of 10 (the first), 2, 3 and what its tasks take
  for (int step = 0; step < 4; ++step)
    for (int rank = 0; rank < 3; ++rank) {
      all.push_back({.step = step,
                     .rank = rank,
                     .label = "s0.mb0.fwd",
                     .start = Seconds{starts[step]},
                     .duration = Seconds{rank == 2 ? 1.5 : 1.0}});
      all.push_back({.step = step,
                     .rank = rank,
                     .label = "s0.dp.reduce",
                     .stream = StreamKind::dp,
                     .start = Seconds{starts[step] + 1},
                     .duration = Seconds{0.5 + rank}});
    }
  const StepSummary summary = summarise(all);
  EXPECT_EQ(summary.steps, 3);
  EXPECT_EQ(summary.by_label.at("s0.mb0.fwd"), Seconds{1});      // the median rank
  EXPECT_EQ(summary.by_label.at("s0.dp.reduce"), Seconds{0.5});  // the rank that came last waited for nobody
  EXPECT_EQ(summary.step, Seconds{3});                           // of 2, 3 and 3.5
}

TEST(Probe, LinksOfASyntheticMachineAreFoundAndItsTopologyIsRead) {
  ProbeResult r;
  r.environment = {"a CPU", 2, "cpu-v4", "Open MPI", "0.1.0", 4, 1, 2};
  r.ranks_per_host = 2;
  r.ranks_per_machine = 4;  // the hosts are containers of one machine
  r.memory = gibibytes(8);
  r.memory_bandwidth = BytesPerSecond{2e10};
  r.kernel_floor = microseconds(1);
  r.products = {{128, 256, 512, Precision::fp32, FlopsPerSecond{1e11}},
                {64, 64, 64, Precision::fp32, FlopsPerSecond{2e10}}};
  r.attention = {{1, 4, 64, 128, false, Precision::fp32, microseconds(80)}};
  for (const double bytes : {4096.0, 65536.0, 1048576.0}) {
    // Ring over two ranks in a host: 2 rounds of 3 us and the message once at 4 GB/s; between hosts 50 us,
    // 0.1 GB/s.
    r.collectives.push_back({Collective::all_reduce, {2, 1}, Bytes{bytes}, Seconds{2 * 3e-6 + bytes / 4e9}});
    r.collectives.push_back({Collective::send, {2, 1}, Bytes{bytes}, Seconds{3e-6 + bytes / 4e9}});
    r.collectives.push_back({Collective::all_reduce, {2, 2}, Bytes{bytes}, Seconds{2 * 50e-6 + bytes / 1e8}});
  }
  const FittedLinks links = fit_links(r);
  EXPECT_NEAR(links.local_latency.value(), 3e-6, 3e-8);
  EXPECT_NEAR(links.local_bandwidth.value(), 4e9, 4e7);
  EXPECT_NEAR(links.network_latency.value(), 50e-6, 5e-7);
  EXPECT_NEAR(links.network_bandwidth.value(), 2e8, 2e6);  // two groups share it

  const ProbeResult again = read_probe(file_of("probe.json", to_json(r)));
  EXPECT_EQ(to_json(again), to_json(r));
  const Topology topology = read_topology(file_of("probed.yaml", probe_topology(r, "probed")), {});
  EXPECT_EQ(topology.gpus, 4);
  EXPECT_EQ(topology.nodes(), 2);
  EXPECT_EQ(topology.shared_cores, 2);
  const AnalyticCostModel model(topology.device);
  // Measured collectives count where the shape was measured, along a line between sizes.
  const GroupPath pair = group_path(topology, {2, 2});
  const auto expect_time = [&](double bytes, double seconds) {  // the file has five digits
    EXPECT_NEAR(model.collective(Collective::all_reduce, Bytes{bytes}, pair).value(), seconds,
                1e-4 * seconds);
  };
  expect_time(65536, 2 * 50e-6 + 65536 / 1e8);
  expect_time(500000, 2 * 50e-6 + 5e5 / 1e8);
  expect_time(1, 2 * 50e-6 + 4096 / 1e8);
  expect_time(2097152, 2 * (2 * 50e-6 + 1048576 / 1e8));
  EXPECT_GT(model.collective(Collective::all_gather, Bytes{65536}, pair).value(), 0);  // by the links
  const Seconds measured = model.product({.m = 128, .n = 256, .k = 512, .precision = Precision::fp32});
  EXPECT_NEAR(measured.value(), 2.0 * 128 * 256 * 512 / 1e11 + 1e-6, 1e-9);
  EXPECT_NEAR(
      model
          .attention(
              {.samples = 1, .heads = 4, .head_dim = 64, .sequence = 128, .precision = Precision::fp32})
          .value(),
      80e-6, 1e-9);
}

}  // namespace
}  // namespace tpplan
