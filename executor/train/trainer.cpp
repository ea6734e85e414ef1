#include "executor/train/trainer.hpp"

#include <cmath>
#include <fmt/format.h>
#include <numbers>

#include "executor/train/mixing.hpp"

namespace tpplan {
namespace {

/// FNV-1a, the same on every machine.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

/// Standard normal number of a counter (Box & Muller 1958).
float normal(std::uint64_t seed, std::uint64_t counter) {
  const std::uint64_t bits = mixed(seed + (counter + 1) * 0x9e3779b97f4a7c15ULL);
  const double u = (static_cast<double>(bits >> 32) + 0.5) / 4294967296.0;
  const double v = static_cast<double>(bits & 0xffffffffU) / 4294967296.0;
  return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
}

bool is_norm_weight(Role role) {
  return role == Role::norm1_weight || role == Role::norm2_weight || role == Role::final_norm_weight ||
         role == Role::q_norm || role == Role::k_norm;
}

}  // namespace

Trainer::Trainer(RankContext& rank, const TrainingOptions& options, Schedule schedule)
    : rank_(rank),
      options_(options),
      schedule_(std::move(schedule)),
      data_lane_(rank.data ? rank.backend.make_lane("data") : nullptr),
      store_(rank, data_lane_.get()),
      pipeline_(rank, store_, schedule_),
      scale_(options, rank.plan.precision == Precision::fp16) {
  const ParallelPlan& plan = rank.plan;
  tokens_ = rank.arena.allocate(2 * plan.microbatches() * plan.micro_batch * plan.sequence * 4,
                                MemoryCategory::activations);
}

void Trainer::initialise() {
  const double output = 0.02 / std::sqrt(2.0 * rank_.model.layers);
  store_.load([&](const Parameter& p, const Part& part, float* to, std::int64_t stride) {
    const std::uint64_t seed = mixed(options_.seed ^ hash_of(part.tensor));
    const bool is_output = p.role == Role::out_weight || p.role == Role::down_weight;
    const auto deviation = static_cast<float>(is_output ? output : 0.02);
    for (std::int64_t r = 0; r < part.rows; ++r)
      for (std::int64_t c = 0; c < p.cols; ++c) {
        float& value = to[r * stride + c];
        if (part.tensor_cols == 0)
          value = is_norm_weight(p.role) ? 1.0F : 0.0F;
        else
          value = deviation * normal(seed, static_cast<std::uint64_t>(
                                               (part.first_row + r) * part.tensor_cols + part.first_col + c));
      }
  });
}

StepResult Trainer::gradients(std::span<const std::int32_t> tokens) {
  rank_.backend.upload(tokens_.data(), tokens.data(), static_cast<std::int64_t>(tokens.size_bytes()));
  rank_.recorder.begin_step(static_cast<int>(step_));
  store_.begin_step();
  StepSettings settings;
  settings.dropout = static_cast<float>(options_.dropout);
  settings.seed = mixed(options_.seed + static_cast<std::uint64_t>(step_) * 0x632be59bd9b4e019ULL);
  settings.loss_scale = static_cast<float>(scale_.value());
  const double loss = pipeline_.run(settings, static_cast<const std::int32_t*>(tokens_.data()));
  store_.finish_gradients();

  // Every tensor rank of the last stage has the same loss: the first one counts it.
  double values[] = {store_.squared_norm(), rank_.at.tp == 0 ? loss : 0.0};
  {
    const auto span = rank_.recorder.span(Task{.kind = TaskKind::norm, .stream = StreamKind::tp}, Bytes{16},
                                          rank_.plan.world());
    rank_.world.all_reduce(values);
  }
  StepResult result;
  result.step = step_;
  result.loss = values[1] / (static_cast<double>(rank_.plan.global_batch) * rank_.plan.sequence);
  result.loss_scale = scale_.value();
  result.gradient_norm = std::sqrt(values[0]) / scale_.value();
  result.learning_rate = learning_rate_at(options_, step_);
  return result;
}

StepResult Trainer::step(std::span<const std::int32_t> tokens) {
  StepResult result = gradients(tokens);
  const bool finite = std::isfinite(result.gradient_norm) && std::isfinite(result.loss);
  if (!finite && !scale_.dynamic()) report_not_finite(result.loss);
  result.skipped = !finite;
  if (finite) {
    const double clip =
        options_.clip > 0 ? std::min(1.0, options_.clip / (result.gradient_norm + 1e-6)) : 1.0;
    AdamW update;
    update.learning_rate = static_cast<float>(result.learning_rate);
    update.beta1 = static_cast<float>(options_.beta1);
    update.beta2 = static_cast<float>(options_.beta2);
    update.epsilon = static_cast<float>(options_.epsilon);
    update.weight_decay = static_cast<float>(options_.weight_decay);
    update.correction1 = static_cast<float>(1 - std::pow(options_.beta1, static_cast<double>(step_ + 1)));
    update.correction2 = static_cast<float>(1 - std::pow(options_.beta2, static_cast<double>(step_ + 1)));
    update.gradient_scale = static_cast<float>(clip / scale_.value());
    const auto span = rank_.recorder.span(Task{.kind = TaskKind::optimizer, .stage = rank_.at.pp});
    store_.optimizer_step(options_.optimizer, update);
  }
  if (finite) store_.gather_weights();
  scale_.update(!finite);
  ++step_;
  return result;
}

/// Every rank looks for itself; the first that finds something tells the others.
void Trainer::report_not_finite(double loss) {
  const std::string own = store_.first_not_finite();
  std::vector<double> found(static_cast<std::size_t>(rank_.world.size()));
  found[static_cast<std::size_t>(rank_.world.rank())] = own.empty() ? 0 : 1;
  rank_.world.all_reduce(found);
  int first = 0;
  while (first < rank_.world.size() && found[static_cast<std::size_t>(first)] == 0) ++first;
  if (first == rank_.world.size())
    throw NotFinite(
        fmt::format("step {}: the loss is {}, though every gradient and weight is finite", step_, loss));
  throw NotFinite(fmt::format("step {}: rank {}: {} is not finite", step_, first,
                              rank_.world.broadcast_text(own, first)));
}

}  // namespace tpplan
