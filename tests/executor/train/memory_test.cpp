// Memory of a rank: what the account predicts, and that it does not grow.

#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "executor/support/training_run.hpp"
#include "simulator/memory/memory_report.hpp"
#include "simulator/plan/problem.hpp"
#include "simulator/plan/runtime_profiles.hpp"

namespace tpplan::testing {
namespace {

/// Bytes that the fullest rank of each pipeline position held at its peak, over `steps` steps; `later` is
/// called after each.
std::vector<double> peaks(const ModelSpec& model, const ParallelPlan& plan, int steps,
                          const std::function<void(int step, const Arena&)>& later = {}) {
  std::vector<double> peaks(static_cast<std::size_t>(plan.pp));
  std::mutex mutex;
  on_ranks(model, plan, TrainingOptions{}, schedule_of(plan), Seconds{60}, [&](TrainingRank rank) {
    for (int step = 0; step < steps; ++step) {
      (void)rank.trainer.step(rank.batches.next());
      if (later && rank.world.rank() == 0) later(step, rank.arena);
    }
    const std::lock_guard lock(mutex);
    double& peak = peaks[static_cast<std::size_t>(rank.context.at.pp)];
    peak = std::max(peak, static_cast<double>(rank.arena.peak_bytes()));
  });
  return peaks;
}

/// Large enough that rounding up of small pieces does not count.
ModelSpec middle_sized(ModelSpec model) {
  model.hidden = 128;
  model.head_dim = 32;
  model.ffn = 384;
  model.vocabulary = 1024;
  model.sequence = model.max_positions = 64;
  if (model.learned_positions > 0) model.learned_positions = 64;
  return model;
}

TEST(Memory, IsWhatTheAccountPredicts) {
  struct Case {
    int tp, dp, pp, vpp, zero;
    bool split;
    Recompute recompute;
    ScheduleKind schedule;
    Precision precision;
  };
  using enum Recompute;
  using enum ScheduleKind;
  constexpr auto fp32 = Precision::fp32, bf16 = Precision::bf16;
  for (const ModelSpec& model : {middle_sized(small_gpt2()), middle_sized(small_llama())})
    for (const Case& c :
         {Case{1, 1, 1, 1, 0, false, none, one_f_one_b, fp32},
          Case{1, 1, 1, 1, 0, false, full, one_f_one_b, bf16},
          Case{2, 1, 1, 1, 0, true, none, one_f_one_b, fp32},
          Case{1, 2, 1, 1, 1, false, selective, one_f_one_b, bf16},
          Case{1, 4, 1, 1, 2, false, none, one_f_one_b, fp32},
          Case{1, 4, 1, 1, 3, false, none, one_f_one_b, fp32},
          Case{1, 1, 4, 1, 0, false, none, one_f_one_b, fp32}, Case{1, 1, 4, 1, 0, false, none, gpipe, bf16},
          Case{1, 1, 2, 2, 0, false, none, interleaved, fp32},
          Case{2, 2, 2, 1, 1, true, selective, one_f_one_b, bf16}}) {
      ParallelPlan plan = small_plan(model, c.tp, c.dp, c.pp);
      plan.vpp = c.vpp;
      plan.stages = even_stages(model.layers, plan.pp, plan.vpp);
      plan.zero = static_cast<ZeroStage>(c.zero);
      plan.sequence_parallel = c.split;
      plan.recompute = c.recompute;
      plan.schedule = c.schedule;
      plan.precision = c.precision;
      plan.runtime = *runtime_profile("tpplan");
      Problem problem;
      problem.model = model;
      problem.sequence = plan.sequence;
      problem.global_batch = plan.global_batch;
      problem.precision = plan.precision;
      problem.runtime = plan.runtime;
      const MemoryReport predicted = memory_report(
          problem, plan, block_parameters(model, plan.tp),
          layer_memory(problem, plan.tp, plan.sequence_parallel, plan.micro_batch, plan.recompute));
      const std::vector<double> measured = peaks(model, plan, 2);
      for (std::size_t pp = 0; pp < measured.size(); ++pp)
        EXPECT_NEAR(predicted.ranks[pp].allocated().value() / measured[pp], 1, 0.1) << fmt::format(
            "{} tp{} dp{} pp{} zero{} recompute{}: pipeline rank {} holds {:.0f} KiB", model.name, c.tp, c.dp,
            c.pp, c.zero, static_cast<int>(c.recompute), pp, measured[pp] / 1024);
    }
}

std::int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

struct Held {
  std::int64_t peak = 0, reserved = 0, resident = 0;
};

/// After 100 steps and after 1,000.
std::pair<Held, Held> thousand_steps(const ModelSpec& model, const ParallelPlan& plan) {
  Held early, late;
  (void)peaks(model, plan, 1000, [&](int step, const Arena& arena) {
    (step < 100 ? early : late) = {arena.peak_bytes(), arena.reserved_bytes(), resident_bytes()};
  });
  return {early, late};
}

ModelSpec two_layers() {
  ModelSpec model = small_gpt2();
  model.layers = 2;
  return model;
}

TEST(Memory, OfOneRankIsFlatOverAThousandSteps) {
  ParallelPlan plan = small_plan(two_layers(), 1, 1, 1);
  plan.global_batch = 2;
  const auto [early, late] = thousand_steps(two_layers(), plan);
  EXPECT_GT(early.peak, 0);
  EXPECT_EQ(late.peak, early.peak);
  EXPECT_EQ(late.reserved, early.reserved);
  EXPECT_LT(late.resident - early.resident, 1 << 20);  // a kilobyte a step would be seen
}

TEST(Memory, OfManyRanksIsFlatOverAThousandSteps) {
  ParallelPlan plan = small_plan(two_layers(), 1, 2, 2);
  plan.zero = ZeroStage::weights;
  plan.global_batch = 4;
  const auto [early, late] = thousand_steps(two_layers(), plan);
  // Whether a reduction has ended when the next begins is a matter of timing: a block's gradients more or
  // less.
  const auto block = static_cast<std::int64_t>(4 * block_parameters(two_layers(), 1).layer);
  EXPECT_LE(late.peak, early.peak + block);
  EXPECT_LE(late.reserved, early.reserved + block);
  EXPECT_LT(late.resident - early.resident, 4 << 20);  // of four ranks
}

}  // namespace
}  // namespace tpplan::testing
