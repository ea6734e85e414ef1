// Whatever the layout, training is the same computation: every plan must give the losses, gradients and
// weights of one rank, up to the order of sums.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <set>

#include "executor/support/training_run.hpp"
#include "simulator/plan/problem.hpp"

namespace tpplan::testing {
namespace {

constexpr int kSteps = 10;

/// One choice for every factor of a layout; the index of the choice in its list.
enum Factor : std::size_t {
  kModel,
  kTp,
  kDp,
  kPp,
  kZero,
  kSplit,
  kRecompute,
  kSchedule,
  kUneven,
  kMicro,
  kOrder,
  kFactors
};
constexpr std::array<int, kFactors> kChoices{3, 3, 3, 3, 4, 2, 3, 3, 2, 2, 2};
using Case = std::array<int, kFactors>;

ModelSpec model_of(int choice) {
  return choice == 0 ? small_gpt2() : choice == 1 ? small_llama() : small_qwen();
}

/// The plan of a case, or nothing where the combination has no meaning.
std::optional<ParallelPlan> plan_of(const Case& c) {
  const ModelSpec model = model_of(c[kModel]);
  ParallelPlan plan = small_plan(model, 1 << c[kTp], 1 << c[kDp], 1 << c[kPp]);
  plan.zero = static_cast<ZeroStage>(c[kZero]);
  plan.sequence_parallel = c[kSplit] == 1;
  plan.recompute = static_cast<Recompute>(c[kRecompute]);
  plan.schedule = static_cast<ScheduleKind>(c[kSchedule]);
  plan.micro_batch = 1 << c[kMicro];
  plan.order = static_cast<AxisOrder>(c[kOrder]);
  if (plan.world() > 16 || plan.global_batch % (plan.micro_batch * plan.dp) != 0) return std::nullopt;
  if (plan.zero != ZeroStage::none && plan.dp == 1) return std::nullopt;
  if (plan.sequence_parallel && plan.tp == 1) return std::nullopt;
  if (plan.schedule == ScheduleKind::interleaved) {
    if (plan.pp != 2 || plan.microbatches() % plan.pp != 0) return std::nullopt;
    plan.vpp = 2;
    plan.stages = even_stages(model.layers, plan.pp, plan.vpp);
  }
  if (c[kUneven] == 1) {
    if (plan.pp != 2) return std::nullopt;
    ++plan.stages[0].layers;
    for (std::size_t i = 1; i < plan.stages.size(); ++i) ++plan.stages[i].first_layer;
    --plan.stages.back().layers;
  }
  return plan;
}

std::string name_of(const Case& c, const ParallelPlan& p) {
  return fmt::format("{} tp{} dp{} pp{} zero{} split{} recompute{} schedule{} uneven{} micro{} order{}",
                     model_of(c[kModel]).name, p.tp, p.dp, p.pp, c[kZero], c[kSplit], c[kRecompute],
                     c[kSchedule], c[kUneven], p.micro_batch, c[kOrder]);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  Case c{};
  for (bool more = true; more;) {
    if (plan_of(c)) cases.push_back(c);
    more = false;
    for (std::size_t f = 0; f < kFactors && !more; ++f) {
      more = ++c[f] < kChoices[f];
      if (!more) c[f] = 0;
    }
  }
  return cases;
}

using Pair = std::array<int, 4>;  // factor, choice, factor, choice

std::vector<Pair> pairs_of(const Case& c) {
  std::vector<Pair> pairs;
  for (int a = 0; a < static_cast<int>(kFactors); ++a)
    for (int b = a + 1; b < static_cast<int>(kFactors); ++b)
      pairs.push_back({a, c[static_cast<std::size_t>(a)], b, c[static_cast<std::size_t>(b)]});
  return pairs;
}

/// A set in which every possible pair of choices occurs: always the case that adds most new pairs.
std::vector<Case> pairwise_cases() {
  const std::vector<Case> all = all_cases();
  std::set<Pair> open;
  for (const Case& c : all)
    for (const Pair& pair : pairs_of(c)) open.insert(pair);
  std::vector<Case> chosen;
  while (!open.empty()) {
    std::size_t best = 0, most = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::size_t adds = 0;
      for (const Pair& pair : pairs_of(all[i])) adds += open.count(pair);
      if (adds > most) best = i, most = adds;
    }
    chosen.push_back(all[best]);
    for (const Pair& pair : pairs_of(all[best])) open.erase(pair);
  }
  return chosen;
}

TrainingOptions options_of(OptimizerKind optimizer) {
  TrainingOptions options;
  options.optimizer = optimizer;
  options.learning_rate = optimizer == OptimizerKind::sgd ? 0.1 : 1e-3;
  options.warmup_steps = 2;
  options.total_steps = 20;
  options.clip = 0.5;
  options.dropout = 0.1;  // its random numbers must not depend on the layout either
  return options;
}

const TrainingRun& one_rank(int model, OptimizerKind optimizer) {
  static std::map<std::pair<int, OptimizerKind>, TrainingRun> runs;
  const auto [found, fresh] = runs.try_emplace({model, optimizer});
  if (fresh) {
    const ModelSpec spec = model_of(model);
    found->second = train(spec, small_plan(spec, 1, 1, 1), options_of(optimizer),
                          optimizer == OptimizerKind::sgd ? 1 : kSteps);
  }
  return found->second;
}

double norm_of(const Tensors& tensors) {
  double sum = 0;
  for (const auto& [name, values] : tensors)
    for (const double v : values) sum += v * v;
  return std::sqrt(sum);
}

std::size_t size_of(const Tensors& tensors) {
  std::size_t count = 0;
  for (const auto& entry : tensors) count += entry.second.size();
  return count;
}

void expect_equal(const Tensors& got, const Tensors& expected, double relative, double floor,
                  const char* what) {
  for (const auto& [name, error] : relative_errors(got, expected, floor / relative))
    EXPECT_LE(error, relative) << what << " of " << name;
}

void check(const Case& c) {
  const ParallelPlan plan = *plan_of(c);
  const ModelSpec model = model_of(c[kModel]);
  SCOPED_TRACE(name_of(c, plan));
  const TrainingRun& one = one_rank(c[kModel], OptimizerKind::adamw);
  const TrainingRun run = train(model, plan, options_of(OptimizerKind::adamw), kSteps);
  ASSERT_EQ(run.losses.size(), one.losses.size());
  for (std::size_t i = 0; i < run.losses.size(); ++i) {
    EXPECT_NEAR(run.losses[i], one.losses[i], 1e-5 * one.losses[i]) << "step " << i;
    EXPECT_NEAR(run.gradient_norms[i], one.gradient_norms[i], 1e-4 * one.gradient_norms[i]) << "step " << i;
  }
  // What sums in another order may differ by where the true gradient is zero: an ulp of a typical element.
  const double typical = norm_of(one.gradients) / std::sqrt(static_cast<double>(size_of(one.gradients)));
  const double ulp = std::ldexp(1.0, -23);
  expect_equal(run.gradients, one.gradients, 1e-5, typical * ulp, "gradient");
  // AdamW divides by the gradient's own size: where that is rounding alone, weights move by rounding. After
  // ten steps at rate 1e-3 such an element may be off by a tenth of a step.
  expect_equal(run.weights, one.weights, 1e-3, 1e-4, "weight after ten AdamW steps");

  const TrainingRun sgd = train(model, plan, options_of(OptimizerKind::sgd), 1);
  expect_equal(sgd.weights, one_rank(c[kModel], OptimizerKind::sgd).weights, 1e-5, 0.1 * typical * ulp,
               "weight after one SGD step");
}

TEST(Equality, EveryPairOfChoicesTrainsLikeOneRank) {
  const std::vector<Case> cases = pairwise_cases();
  EXPECT_GE(cases.size(), 12U);  // 3 models x 4 ZeRO stages at least
  for (const Case& c : cases) check(c);
}

/// Every combination with one model and one set of degrees: the first four factors of a case.
class SlowEquality : public ::testing::TestWithParam<std::array<int, 4>> {
 public:
  static std::set<std::array<int, 4>> all() {
    std::set<std::array<int, 4>> degrees;
    for (const Case& c : all_cases()) degrees.insert(first_factors(c));
    return degrees;
  }

  static std::string name(const ::testing::TestParamInfo<std::array<int, 4>>& info) {
    const std::array<int, 4>& at = info.param;
    const std::string model = model_of(at[kModel]).name.substr(std::string("small-").size());
    return fmt::format("{}_tp{}_dp{}_pp{}", model, 1 << at[kTp], 1 << at[kDp], 1 << at[kPp]);
  }

  static std::array<int, 4> first_factors(const Case& c) { return {c[kModel], c[kTp], c[kDp], c[kPp]}; }
};

TEST_P(SlowEquality, EveryCombinationTrainsLikeOneRank) {
  for (const Case& c : all_cases()) {
    if (first_factors(c) == GetParam()) check(c);
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(Degrees, SlowEquality, ::testing::ValuesIn(SlowEquality::all()), SlowEquality::name);

TEST(Equality, PaddedVocabularyOf50257OverTwoRanks) {
  // 50257 rows are padded to 50432 = 2 * 25216 (a multiple of 128 for each rank): rank 1 holds 175 of
  // padding.
  EXPECT_EQ(padded_vocabulary(50257, 2), 50432);
  ModelSpec model = small_gpt2();
  model.layers = 1;
  model.vocabulary = 50257;
  const TrainingOptions options = options_of(OptimizerKind::adamw);
  ParallelPlan plan = small_plan(model, 1, 1, 1);
  plan.global_batch = 2;
  const TrainingRun one = train(model, plan, options, 2);
  plan.tp = 2;
  const TrainingRun two = train(model, plan, options, 2);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(two.losses[i], one.losses[i], 1e-5 * one.losses[i]);
  const double typical = norm_of(one.gradients) / std::sqrt(static_cast<double>(size_of(one.gradients)));
  expect_equal(two.gradients, one.gradients, 1e-5, typical * std::ldexp(1.0, -23), "gradient");
}

TEST(Equality, SixteenBitFormatsFollowFp32) {
  // 8 and 11 bits of mantissa: losses of a few steps stay within 2^-8 and 2^-10 of fp32, relative.
  for (const auto& [precision, bound] : {std::pair{Precision::bf16, 4e-3}, {Precision::fp16, 1e-3}}) {
    const ModelSpec model = small_llama();
    const TrainingOptions options = options_of(OptimizerKind::adamw);
    const TrainingRun& exact = one_rank(1, OptimizerKind::adamw);
    for (const ZeroStage zero : {ZeroStage::none, ZeroStage::weights}) {
      ParallelPlan plan = small_plan(model, 2, 2, 1);
      plan.precision = precision;
      plan.zero = zero;
      const TrainingRun run = train(model, plan, options, kSteps);
      for (std::size_t i = 0; i < run.losses.size(); ++i)
        EXPECT_NEAR(run.losses[i], exact.losses[i], bound * exact.losses[i])
            << name(precision) << " step " << i;
    }
  }
}

}  // namespace
}  // namespace tpplan::testing
