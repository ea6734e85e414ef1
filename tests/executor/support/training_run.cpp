#include "executor/support/training_run.hpp"

#include <cmath>

#include "executor/backend/rank_threads.hpp"
#include "executor/cpu/cpu_backend.hpp"

namespace tpplan::testing {
namespace {

ModelSpec base(std::string name) {
  ModelSpec m;
  m.name = std::move(name);
  m.layers = 4;
  m.hidden = 32;
  m.heads = m.kv_heads = 4;
  m.head_dim = 8;
  m.ffn = 64;
  m.vocabulary = 257;  // no multiple of 2: the last tensor rank holds padding
  m.sequence = 16;
  return m;
}

void collect(Trainer& trainer, ParameterStore::Field field, const ModelSpec& model, std::mutex& mutex,
             Tensors& tensors) {
  const std::scoped_lock lock(mutex);
  for (const PublishedTensor& t : published_tensors(model)) {
    std::size_t count = 1;
    for (const std::int64_t n : t.shape) count *= static_cast<std::size_t>(n);
    tensors[t.name].resize(count, 0);
  }
  trainer.store().visit_own(
      field, [&](const Part& part, std::int64_t row, std::int64_t col, std::span<const float> values) {
        const std::int64_t width = std::max<std::int64_t>(1, part.tensor_cols);
        std::copy(values.begin(), values.end(), tensors.at(part.tensor).begin() + row * width + col);
      });
}

}  // namespace

ModelSpec small_gpt2() {
  ModelSpec m = base("small-gpt2");
  m.family = "gpt";
  m.qkv_bias = m.attention_out_bias = m.mlp_bias = m.tied_embeddings = true;
  m.learned_positions = m.max_positions = 20;
  return m;
}

ModelSpec small_llama() {
  ModelSpec m = base("small-llama");
  m.family = "llama";
  m.kv_heads = 2;
  m.gated_mlp = true;
  m.activation = ActivationKind::silu;
  m.norm = NormKind::rms_norm;
  m.position = PositionKind::rotary;
  return m;
}

ModelSpec small_qwen() {
  ModelSpec m = small_llama();
  m.name = "small-qwen";
  m.qk_norm = m.qkv_bias = m.tied_embeddings = true;
  return m;
}

ParallelPlan small_plan(const ModelSpec& model, int tp, int dp, int pp) {
  ParallelPlan plan;
  plan.tp = tp;
  plan.dp = dp;
  plan.pp = pp;
  plan.micro_batch = 1;
  plan.global_batch = 8;
  plan.sequence = model.sequence;
  plan.precision = Precision::fp32;
  plan.bucket = Bytes{16384};
  plan.stages = even_stages(model.layers, pp, 1);
  return plan;
}

SampleReader random_samples(const ModelSpec& model) {
  return [vocabulary = static_cast<std::uint64_t>(model.vocabulary)](std::int64_t number,
                                                                     std::span<std::int32_t> tokens) {
    std::uint64_t state = static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15ULL + 77;
    for (std::int32_t& token : tokens) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      token = static_cast<std::int32_t>((state >> 33) % vocabulary);
    }
  };
}

void on_ranks(const ModelSpec& model, const ParallelPlan& plan, const TrainingOptions& options,
              const Schedule& schedule, Seconds patience, const std::function<void(TrainingRank)>& body) {
  run_rank_threads(plan.world(), patience, [&](Communicator& world) {
    const auto backend = make_cpu_backend(1);
    Arena arena(*backend);
    Recorder recorder(world.rank(), false);
    RankContext context(model, plan, *backend, arena, recorder, world);
    Trainer trainer(context, options, schedule);
    trainer.initialise();
    BatchReader batches(random_samples(model), plan, context.at.dp, 0);
    body({world, context, arena, trainer, batches});
  });
}

TrainingRun train(const ModelSpec& model, const ParallelPlan& plan, const TrainingOptions& options,
                  int steps) {
  TrainingRun run;
  std::mutex mutex;
  on_ranks(model, plan, options, schedule_of(plan), Seconds{60}, [&](TrainingRank rank) {
    BatchReader first(random_samples(model), plan, rank.context.at.dp, 0);
    (void)rank.trainer.gradients(first.next());
    collect(rank.trainer, ParameterStore::Field::gradient, model, mutex, run.gradients);
    for (int i = 0; i < steps; ++i) {
      const StepResult result = rank.trainer.step(rank.batches.next());
      if (rank.world.rank() != 0) continue;
      run.losses.push_back(result.loss);
      run.gradient_norms.push_back(result.gradient_norm);
    }
    collect(rank.trainer, ParameterStore::Field::weight, model, mutex, run.weights);
  });
  return run;
}

std::map<std::string, double> relative_errors(const Tensors& a, const Tensors& b, double floor) {
  std::map<std::string, double> errors;
  for (const auto& [name, values] : b) {
    const std::vector<double>& others = a.at(name);
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      difference += (others[i] - values[i]) * (others[i] - values[i]);
      size += values[i] * values[i];
    }
    errors[name] = std::sqrt(difference) /
                   std::max(std::sqrt(size), floor * std::sqrt(static_cast<double>(values.size())));
  }
  return errors;
}

}  // namespace tpplan::testing
