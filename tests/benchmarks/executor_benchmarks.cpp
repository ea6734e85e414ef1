// Speed of the executor on this machine: kernels against memory bandwidth, and a whole step of GPT-2 124M (4
// samples of 64 tokens) against the sum of its matrix products and one pass of AdamW, taken in the same run.

#include <benchmark/benchmark.h>
#include <chrono>
#include <thread>

#include "executor/backend/rank_threads.hpp"
#include "executor/cpu/cpu_backend.hpp"
#include "executor/train/batch_reader.hpp"
#include "executor/train/trainer.hpp"
#include "simulator/engine/simulation.hpp"
#include "simulator/model/model_reader.hpp"

namespace tpplan {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int cores() { return static_cast<int>(std::thread::hardware_concurrency()); }

OwnedTensor filled(Backend& backend, Arena& arena, DType type, std::int64_t rows, std::int64_t cols,
                   std::int64_t stride = 0) {
  OwnedTensor x = arena.matrix(type, rows, cols, MemoryCategory::workspace, stride);
  backend.fill(x.tensor, 0.01F);
  return x;
}

/// Seconds of the products of one step: forward, input gradient and weight gradient of every linear layer,
/// each with operands of its own, and one pass of AdamW over the parameters.
double floor_of(const ModelSpec& m, std::int64_t tokens, DType type) {
  const auto backend = make_cpu_backend(cores());
  Arena arena(*backend);
  double total = 0;
  const std::int64_t shapes[][2] = {
      {m.hidden, 3 * m.hidden}, {m.hidden, m.hidden}, {m.hidden, m.ffn}, {m.ffn, m.hidden}};
  const auto linear = [&](std::int64_t in, std::int64_t out, int layers) {
    std::vector<OwnedTensor> w, dw;
    const OwnedTensor x = filled(*backend, arena, type, tokens, in, padded_stride(in));
    const OwnedTensor y = filled(*backend, arena, type, tokens, out, padded_stride(out));
    for (int i = 0; i < layers; ++i) {
      w.push_back(filled(*backend, arena, type, out, in, padded_stride(in)));
      dw.push_back(filled(*backend, arena, DType::f32, out, in, padded_stride(in)));
    }
    double best = 1e300;
    for (int repeat = 0; repeat < 3; ++repeat) {
      const Clock::time_point start = Clock::now();
      for (int i = 0; i < layers; ++i) {
        const auto l = static_cast<std::size_t>(i);
        backend->linear(y.tensor, x.tensor, w[l].tensor, {});
        backend->matmul(x.tensor, y.tensor, false, w[l].tensor, false, 0);
        backend->matmul(dw[l].tensor, y.tensor, true, x.tensor, false, 0);
      }
      best = std::min(best, seconds_since(start));
    }
    total += best;
  };
  for (const auto& [in, out] : shapes) linear(in, out, m.layers);
  linear(m.hidden, m.vocabulary, 1);
  const auto parameters = count_parameters(m).total();
  std::vector<OwnedTensor> state;
  for (int i = 0; i < 4; ++i) state.push_back(filled(*backend, arena, DType::f32, 1, parameters));
  const OwnedTensor copy = type == DType::f32 ? OwnedTensor{} : filled(*backend, arena, type, 1, parameters);
  double best = 1e300;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const Clock::time_point start = Clock::now();
    backend->adamw(state[0].tensor, copy.tensor, state[1].tensor, state[2].tensor, state[3].tensor,
                   {.learning_rate = 1e-4F});
    best = std::min(best, seconds_since(start));
  }
  return total + best;
}

/// A rank with all cores trains; counters show the step beside its floor.
void step(benchmark::State& state, Precision precision) {
  const ModelSpec model = read_model(TPPLAN_SOURCE_DIR "/configs/models/gpt2-124m.yaml");
  ParallelPlan plan;
  plan.micro_batch = 4;
  plan.global_batch = 4;
  plan.sequence = 64;
  plan.precision = precision;
  plan.stages = even_stages(model.layers, 1, 1);
  double median = 0;
  for (auto _ : state) {
    std::vector<double> times;
    run_rank_threads(1, Seconds{600}, [&](Communicator& world) {
      const auto backend = make_cpu_backend(cores());
      Arena arena(*backend);
      Recorder recorder(0, true);
      RankContext rank(model, plan, *backend, arena, recorder, world);
      Trainer trainer(rank, {}, schedule_of(plan));
      trainer.initialise();
      BatchReader batches(
          [](std::int64_t number, std::span<std::int32_t> tokens) {
            for (std::size_t i = 0; i < tokens.size(); ++i)
              tokens[i] =
                  static_cast<std::int32_t>((static_cast<std::size_t>(number) * 977 + i * 131) % 50257);
          },
          plan, 0, 0);
      for (int i = 0; i < 8; ++i) {
        const auto tokens = batches.next();
        const Clock::time_point start = Clock::now();
        benchmark::DoNotOptimize(trainer.step(tokens));
        if (i > 0) times.push_back(seconds_since(start));
      }
    });
    std::nth_element(times.begin(), times.begin() + 3, times.end());
    median = times[3];
    state.SetIterationTime(median);
  }
  const double floor = floor_of(model, 256, dtype_of(precision));
  state.counters["floor_s"] = floor;
  state.counters["over_floor"] = median / floor;
}
BENCHMARK_CAPTURE(step, gpt2_124m_fp32, Precision::fp32)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, gpt2_124m_bf16, Precision::bf16)
    ->UseManualTime()
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

/// Calls `kernel` and reports the bytes that it reads and writes.
template <class Kernel>
void streaming(benchmark::State& state, double bytes, Kernel kernel) {
  for (auto _ : state) kernel();
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes * static_cast<double>(state.iterations())));
}

void memory_bound_kernels(benchmark::State& state) {
  const auto backend = make_cpu_backend(cores());
  Arena arena(*backend);
  constexpr std::int64_t kRows = 2048, kCols = 1536, kCount = kRows * kCols;
  const OwnedTensor a = filled(*backend, arena, DType::f32, kRows, kCols),
                    b = filled(*backend, arena, DType::f32, kRows, kCols),
                    c = filled(*backend, arena, DType::f32, kRows, kCols),
                    w = filled(*backend, arena, DType::f32, 1, kCols),
                    dw = filled(*backend, arena, DType::f32, 1, kCols),
                    db = filled(*backend, arena, DType::f32, 1, kCols),
                    statistics = filled(*backend, arena, DType::f32, 2, kRows);
  switch (state.range(0)) {
    case 0:
      return streaming(state, 12.0 * kCount, [&] { backend->add(a.tensor, b.tensor); });
    case 1:
      return streaming(state, 8.0 * kCount,
                       [&] { backend->activation(ActivationKind::gelu, false, a.tensor, b.tensor); });
    case 2:
      return streaming(state, 12.0 * kCount, [&] {
        backend->activation_backward(ActivationKind::gelu, false, c.tensor, a.tensor, b.tensor);
      });
    case 3:
      return streaming(state, 8.0 * kCount, [&] {
        backend->norm(NormKind::layer_norm, a.tensor, statistics.tensor, b.tensor, w.tensor, w.tensor, 1e-5F);
      });
    case 4:
      return streaming(state, 12.0 * kCount, [&] {
        backend->norm_backward(NormKind::layer_norm, c.tensor, {}, dw.tensor, db.tensor, a.tensor, b.tensor,
                               statistics.tensor, w.tensor);
      });
    default:
      return streaming(state, 28.0 * kCount, [&] {
        backend->adamw(a.tensor.flat(), {}, b.tensor.flat(), c.tensor.flat(),
                       filled(*backend, arena, DType::f32, 1, kCount).tensor, {.learning_rate = 1e-4F});
      });
  }
}
BENCHMARK(memory_bound_kernels)->ArgName("add,gelu,gelu_backward,norm,norm_backward,adamw")->DenseRange(0, 5);

}  // namespace
}  // namespace tpplan
