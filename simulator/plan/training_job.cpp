#include "simulator/plan/training_job.hpp"

#include <fmt/format.h>

namespace tpplan {
namespace {

constexpr std::int64_t kMostSteps = 1LL << 40;

/// Visits every entry with its key, so that reader and writer share the list.
template <class Job, class Visitor>
void visit(Job& j, Visitor see) {
  see("task", j.task, kJobTaskNames);
  see("format", j.format, kTokenFormatNames);
  see("optimizer", j.training.optimizer, kOptimizerNames);
  see("model", j.model);
  see("plan", j.plan);
  see("data", j.data);
  see("output", j.output);
  see("weights", j.weights);
  see("steps", j.steps);
  see("checkpoint_every", j.checkpoint_every);
  see("keep_checkpoints", j.keep_checkpoints);
  see("save_at_end", j.save_at_end);
  see("resume", j.resume);
  see("measure", j.measure);
  see("threads", j.threads);
  see("ranks", j.ranks);
  see("sequence", j.sequence);
  see("patience", j.patience);
  auto& t = j.training;
  see("learning_rate", t.learning_rate);
  see("min_learning_rate", t.min_learning_rate);
  see("warmup_steps", t.warmup_steps);
  see("total_steps", t.total_steps);
  see("beta1", t.beta1);
  see("beta2", t.beta2);
  see("epsilon", t.epsilon);
  see("weight_decay", t.weight_decay);
  see("clip", t.clip);
  see("dropout", t.dropout);
  see("seed", t.seed);
  see("initial_scale", t.initial_scale);
  see("min_scale", t.min_scale);
  see("max_scale", t.max_scale);
  see("scale_window", t.scale_window);
}

struct Writing {
  std::string& text;
  template <class Enum, std::size_t N>
  void operator()(const char* key, Enum value, const std::array<std::string_view, N>& names) const {
    text += fmt::format("{}: {}\n", key, names[static_cast<std::size_t>(value)]);
  }
  void operator()(const char* key, const std::string& value) const {
    text += fmt::format("{}: {}\n", key, yaml_string(value));
  }
  void operator()(const char* key, bool value) const { text += fmt::format("{}: {}\n", key, value); }
  template <class Number>
  void operator()(const char* key, Number value) const {
    text += fmt::format("{}: {}\n", key, value);
  }
};

struct Reading {
  MapReader& map;
  template <class Enum, std::size_t N>
  void operator()(const char* key, Enum& value, const std::array<std::string_view, N>& names) const {
    if (const auto v = map.optional(key)) value = v->choice<Enum>(names);
  }
  void operator()(const char* key, std::string& value) const {
    if (const auto v = map.optional(key)) value = v->text();
  }
  void operator()(const char* key, bool& value) const {
    if (const auto v = map.optional(key)) value = v->flag();
  }
  void operator()(const char* key, double& value) const {
    if (const auto v = map.optional(key)) value = v->number(0, 1e12);
  }
  void operator()(const char* key, int& value) const {
    if (const auto v = map.optional(key)) value = static_cast<int>(v->integer(0, 1 << 20));
  }
  void operator()(const char* key, std::int64_t& value) const {
    if (const auto v = map.optional(key)) value = v->integer(0, kMostSteps);
  }
  void operator()(const char* key, std::uint64_t& value) const {
    if (const auto v = map.optional(key)) value = static_cast<std::uint64_t>(v->integer(0, kMostSteps));
  }
};

}  // namespace

std::string job_to_yaml(const TrainingJob& job) {
  std::string text = "# Written by tpplan for tpplan-worker.\n";
  visit(job, Writing{text});
  return text;
}

TrainingJob read_job(const std::filesystem::path& file) {
  const Value document = read_document(file);
  MapReader map = document.map();
  TrainingJob job;
  visit(job, Reading{map});
  map.finish();
  if (job.model.empty() && job.task != JobTask::probe) document.fail("key 'model' is missing");
  return job;
}

}  // namespace tpplan
