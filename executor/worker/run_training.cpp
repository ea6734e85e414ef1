#include "executor/worker/run_training.hpp"

#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "executor/cpu/cpu_backend.hpp"
#include "executor/train/batch_reader.hpp"
#include "executor/train/checkpoint.hpp"
#include "executor/train/dataset.hpp"
#include "executor/train/preflight.hpp"
#include "executor/train/tensor_files.hpp"
#include "executor/train/tensorboard.hpp"
#include "executor/worker/events.hpp"
#include "simulator/engine/simulation.hpp"

namespace tpplan {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t kRandomTokens =
    6364136223846793005ULL;  // Knuth's multiplier of a congruential generator

/// Samples of the job's data, or of random tokens.
SampleReader samples_of(const Workload& work, const std::shared_ptr<Dataset>& data) {
  const std::uint64_t seed = work.job.training.seed;
  if (data)
    return
        [data, seed](std::int64_t number, std::span<std::int32_t> out) { data->sample(seed, number, out); };
  return [vocabulary = static_cast<std::uint64_t>(work.model.vocabulary), seed](std::int64_t number,
                                                                                std::span<std::int32_t> out) {
    std::uint64_t state = seed + static_cast<std::uint64_t>(number) * 0x9e3779b97f4a7c15ULL;
    for (std::int32_t& token : out) {
      state = state * kRandomTokens + 1442695040888963407ULL;
      token = static_cast<std::int32_t>((state >> 33) % vocabulary);
    }
  };
}

std::shared_ptr<Dataset> open_data(const Workload& work) {
  if (work.job.data.empty()) return nullptr;
  auto data = std::make_shared<Dataset>(Dataset::open(work.job.data, work.job.format, work.model.vocabulary));
  data->require(work.plan.sequence);
  return data;
}

/// What every kind of job needs of a rank.
struct Rank {
  std::unique_ptr<Backend> backend;
  Arena arena;
  Recorder recorder;
  RankContext context;
  Trainer trainer;

  Rank(const Workload& work, Communicator& world, const RankHost& host)
      : backend(make_cpu_backend(host.threads)),
        arena(*backend),
        recorder(world.rank(), work.job.measure),
        context(work.model, work.plan, *backend, arena, recorder, world),
        trainer(context, work.job.training, schedule_of(work.plan)) {}
};

/// Measurements go to a file of each rank, which rank 0 joins in the end.
class MeasurementFile {
 public:
  MeasurementFile(const fs::path& folder, int rank) : path_(part(folder, rank)), out_(path_) {
    if (!out_) throw SystemError(fmt::format("{}: cannot be written", path_.string()));
  }
  void write(const std::vector<Measurement>& measurements) {
    for (const Measurement& m : measurements) out_ << to_json_line(m);
  }
  void close() { out_.close(); }

  static void join(const fs::path& folder, const Environment& environment) {
    const fs::path whole = folder / "measurements.jsonl";
    const fs::path partial = whole.string() + ".partial";
    std::ofstream out(partial);
    out << to_json_line(environment);
    for (int rank = 0; rank < environment.ranks; ++rank) {
      const fs::path from = part(folder, rank);
      if (fs::exists(from) && fs::file_size(from) > 0) out << std::ifstream(from).rdbuf();
    }
    out.close();
    if (!out) throw SystemError(fmt::format("{}: cannot be written", partial.string()));
    fs::rename(partial, whole);
    for (int rank = 0; rank < environment.ranks; ++rank) fs::remove(part(folder, rank));
  }

 private:
  static fs::path part(const fs::path& folder, int rank) {
    return folder / fmt::format("measurements.rank-{}.jsonl", rank);
  }
  fs::path path_;
  std::ofstream out_;
};

/// What rank 0 keeps of every step: an event, a line of losses.csv, TensorBoard.
class StepLog {
 public:
  StepLog(const Workload& work, const fs::path& folder)
      : work_(work), board_(folder / "tensorboard"), csv_(folder / "losses.csv", std::ios::app) {
    if (!csv_) throw SystemError(fmt::format("{}: cannot be written", (folder / "losses.csv").string()));
    if (csv_.tellp() == 0) csv_ << "step,loss,gradient_norm,learning_rate,seconds\n";
  }
  void add(const StepResult& result, Seconds time, double communication, double pipeline, Bytes memory) {
    const double tokens = static_cast<double>(work_.plan.global_batch) * work_.plan.sequence;
    const double rate = tokens / time.value();
    csv_ << fmt::format("{},{:.9g},{:.9g},{:.6g},{:.6g}\n", result.step, result.loss, result.gradient_norm,
                        result.learning_rate, time.value())
         << std::flush;
    board_.scalar("loss", result.step, result.loss);
    board_.scalar("gradient_norm", result.step, result.gradient_norm);
    board_.scalar("learning_rate", result.step, result.learning_rate);
    board_.scalar("tokens_per_second", result.step, rate);
    board_.flush();
    emit({{"event", "step"},
          {"step", result.step},
          {"steps", work_.job.steps},
          {"loss", result.loss},
          {"gradient_norm", result.gradient_norm},
          {"learning_rate", result.learning_rate},
          {"loss_scale", result.loss_scale},
          {"skipped", result.skipped},
          {"seconds", time.value()},
          {"tokens_per_second", rate},
          {"communication", communication},
          {"pipeline_wait", pipeline},
          {"memory", memory.value()}});
  }

 private:
  const Workload& work_;
  TensorboardWriter board_;
  std::ofstream csv_;
};

/// Memory of every rank and the balance between them, on rank 0.
json memory_report_of(const Rank& rank, Communicator& world) {
  std::vector<double> peaks(static_cast<std::size_t>(world.size()));
  peaks[static_cast<std::size_t>(world.rank())] = static_cast<double>(rank.arena.peak_bytes());
  world.all_reduce(peaks);
  json categories;
  for (std::size_t i = 0; i < kMemoryCategoryNames.size(); ++i)
    if (const Bytes bytes = rank.arena.peak().bytes[i]; bytes.value() > 0)
      categories[std::string(kMemoryCategoryNames[i])] = bytes.value();
  return {{"ranks", peaks}, {"rank0", categories}};
}

void begin(const Workload& work, Rank& rank, bool first) {
  preflight(rank.context);
  if (work.job.resume) {
    if (const auto restored =
            load_checkpoint(fs::path(work.job.output) / "checkpoints", rank.trainer, rank.context)) {
      if (!first) return;
      for (const std::string& damage : restored->skipped) emit({{"event", "note"}, {"text", damage}});
      emit({{"event", "resumed"}, {"step", rank.trainer.next_step()}, {"path", restored->path.string()}});
      return;
    }
    if (first) emit({{"event", "note"}, {"text", "no checkpoint yet: training begins anew"}});
  }
  if (work.job.weights.empty())
    rank.trainer.initialise();
  else
    load_weights(work.job.weights, rank.trainer, work.model);
}

}  // namespace

void run_training(const Workload& work, Communicator& world, const RankHost& host) {
  const bool first = world.rank() == 0;
  const fs::path folder = work.job.output;
  const auto data = open_data(work);
  Rank rank(work, world, host);
  begin(work, rank, first);
  if (first)
    emit({{"event", "start"},
          {"step", rank.trainer.next_step()},
          {"steps", work.job.steps},
          {"ranks", world.size()}});

  BatchReader batches(samples_of(work, data), work.plan, rank.context.at.dp, rank.trainer.next_step());
  std::optional<MeasurementFile> measured;
  if (work.job.measure) measured.emplace(folder, world.rank());
  std::optional<StepLog> log;
  if (first) log.emplace(work, folder);

  world.barrier();
  rank.recorder.start_clock();
  double communication_share = 0, pipeline_share = 0, waiting_share = 0;
  std::int64_t done = 0;
  bool stop = false;
  while (rank.trainer.next_step() < work.job.steps && !stop) {
    const Seconds start = rank.recorder.now();
    const Recorder& r = rank.recorder;
    const Seconds tensor0 = r.communication(), pipeline0 = r.pipeline_wait(), data0 = r.data_wait();
    const StepResult result = rank.trainer.step(batches.next());
    const Seconds time = r.now() - start;
    double shares[] = {(r.communication() - tensor0) / time, (r.data_wait() - data0) / time,
                       (r.pipeline_wait() - pipeline0) / time,
                       first && fs::exists(folder / "stop") ? 1.0 : 0.0};
    world.all_reduce(shares);
    const double n = world.size();
    stop = shares[3] > 0;
    ++done;
    communication_share += (shares[0] + shares[1]) / n;
    pipeline_share += shares[2] / n;
    waiting_share += (shares[0] + shares[1] + shares[2]) / n;
    if (log)
      log->add(result, time, (shares[0] + shares[1]) / n, shares[2] / n,
               Bytes{static_cast<double>(rank.arena.peak_bytes())});
    if (measured) measured->write(rank.recorder.take());
    const std::int64_t every = work.job.checkpoint_every;
    if (every > 0 && rank.trainer.next_step() % every == 0 && rank.trainer.next_step() < work.job.steps) {
      save_checkpoint(folder / "checkpoints", rank.trainer, rank.context, work.job.keep_checkpoints);
      if (first) emit({{"event", "saved"}, {"step", rank.trainer.next_step()}});
    }
  }
  if (done > 0 && work.job.save_at_end) {
    save_checkpoint(folder / "checkpoints", rank.trainer, rank.context, work.job.keep_checkpoints);
    if (first) emit({{"event", "saved"}, {"step", rank.trainer.next_step()}});
  }
  if (measured) measured->close();
  const json memory = memory_report_of(rank, world);
  world.barrier();
  if (!first) return;
  if (measured) MeasurementFile::join(folder, environment_of(host, world.size(), rank.backend->name()));
  const double steps = std::max<double>(1, static_cast<double>(done));
  json report{{"event", "end"},
              {"step", rank.trainer.next_step()},
              {"stopped", stop},
              {"communication", communication_share / steps},
              {"pipeline_wait", pipeline_share / steps},
              {"utilisation", 1 - waiting_share / steps},
              {"memory", memory}};
  if (data && data->tokens() < (1LL << 28)) report["unigram_entropy"] = data->unigram_entropy();
  write_file(folder / "report.json", report.dump(2) + "\n");
  emit(report);
}

void run_gradients(const Workload& work, Communicator& world, const RankHost& host, const std::string& name) {
  const auto data = open_data(work);
  Rank rank(work, world, host);
  begin(work, rank, world.rank() == 0);
  BatchReader batches(samples_of(work, data), work.plan, rank.context.at.dp, rank.trainer.next_step());
  const StepResult result = rank.trainer.gradients(batches.next());
  TensorFileWriter writer(work.job.output, name, work.model);
  if (world.rank() == 0) writer.create();
  world.barrier();
  writer.open();
  rank.trainer.store().visit_own(
      ParameterStore::Field::gradient,
      [&](const Part& part, std::int64_t row, std::int64_t col, std::span<const float> values) {
        writer.write(part, row, col, values);
      });
  writer.close();
  world.barrier();
  if (world.rank() == 0)
    write_file(fs::path(work.job.output) / (name + ".json"),
               json{{"loss", result.loss}, {"gradient_norm", result.gradient_norm}}.dump() + "\n");
}

}  // namespace tpplan
