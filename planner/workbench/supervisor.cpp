#include "planner/workbench/supervisor.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "planner/workbench/process.hpp"
#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

using nlohmann::json;

RunStep step_of(const json& event) {
  return {.step = event.at("step").get<std::int64_t>(),
          .steps = event.at("steps").get<std::int64_t>(),
          .loss = event.at("loss").is_number() ? event.at("loss").get<double>() : std::nan(""),
          .gradient_norm =
              event.at("gradient_norm").is_number() ? event.at("gradient_norm").get<double>() : std::nan(""),
          .learning_rate = event.at("learning_rate").get<double>(),
          .loss_scale = event.at("loss_scale").get<double>(),
          .skipped = event.at("skipped").get<bool>(),
          .time = Seconds{event.at("seconds").get<double>()},
          .tokens_per_second = event.at("tokens_per_second").get<double>(),
          .communication = event.at("communication").get<double>(),
          .pipeline_wait = event.at("pipeline_wait").get<double>(),
          .memory = Bytes{event.at("memory").get<double>()}};
}

void take_end(const json& event, RunReport& report) {
  report.stopped = event.at("stopped").get<bool>();
  report.communication = event.at("communication").get<double>();
  report.pipeline_wait = event.at("pipeline_wait").get<double>();
  report.utilisation = event.at("utilisation").get<double>();
  for (const double peak : event.at("memory").at("ranks").get<std::vector<double>>())
    report.memory.emplace_back(peak);
  if (event.contains("unigram_entropy")) report.unigram_entropy = event.at("unigram_entropy").get<double>();
}

}  // namespace

/// What the ranks said that is no progress.
struct Supervisor::Told {
  std::vector<json> errors, waiting;
  std::chrono::steady_clock::time_point first_wait;
  std::string other;  // lines that are no events: of mpirun, of libraries
};

std::string Supervisor::missing_text(const Told& told) {
  std::set<int> heard;
  for (const json& waiting : told.waiting) heard.insert(waiting.at("rank").get<int>());
  const auto silent = [&](const json& waiting) {
    const auto members = waiting.at("members").get<std::vector<int>>();
    return std::any_of(members.begin(), members.end(), [&](int member) { return heard.count(member) == 0; });
  };
  // Most ranks wait for ranks that wait themselves: the operation that somebody never came to is the cause.
  const auto cause = std::find_if(told.waiting.begin(), told.waiting.end(), silent);
  const json& first = cause != told.waiting.end() ? *cause : told.waiting.front();
  const auto members = first.at("members").get<std::vector<int>>();
  std::set<int> missing(members.begin(), members.end());
  std::string others;
  for (const json& waiting : told.waiting) {
    const int rank = waiting.at("rank").get<int>();
    if (waiting.at("what") == first.at("what") && waiting.at("label") == first.at("label")) {
      missing.erase(rank);
    } else if (missing.count(rank) > 0) {
      missing.erase(rank);
      others += fmt::format("; rank {} waits in {}: {}", rank, waiting.at("label").get<std::string>(),
                            waiting.at("what").get<std::string>());
    }
  }
  std::string text = fmt::format("{}: rank {} has waited for {:.0f} s in {}",
                                 first.at("label").get<std::string>(), first.at("rank").get<int>(),
                                 first.at("seconds").get<double>(), first.at("what").get<std::string>());
  text += others;
  if (!missing.empty()) text += fmt::format("; missing: rank {}", fmt::join(missing, ", "));
  return text + ". The job was ended; --resume goes on from the last checkpoint";
}

void Supervisor::run(const Launch& launch, const std::stop_token& stop, RunReport& report,
                     Stopping stopping) {
  const std::filesystem::path stop_file = folder_ / "stop";
  std::filesystem::remove(stop_file);
  Told told;
  const auto take = [&](const std::string& line) {
    const json event = json::parse(line, nullptr, false);
    if (!event.is_object() || !event.contains("event")) {
      told.other += line + "\n";
      return;
    }
    const auto kind = event.at("event").get<std::string>();
    if (kind == "step") {
      report.steps.push_back(step_of(event));
      if (watcher_.step) watcher_.step(report.steps.back());
    } else if (kind == "error") {
      told.errors.push_back(event);
    } else if (kind == "waiting") {
      // Ranks lose patience within a moment of each other, and two seconds later the job is ended. A frozen
      // rank that wakes up to be ended tells then that it waited too.
      const auto now = std::chrono::steady_clock::now();
      if (told.waiting.empty()) told.first_wait = now;
      if (now - told.first_wait < std::chrono::milliseconds(1800)) told.waiting.push_back(event);
    } else if (kind == "end") {
      take_end(event, report);
    } else if (kind == "resumed") {
      report.resumed_from = event.at("step").get<std::int64_t>();
      if (watcher_.note) watcher_.note(fmt::format("resumed from {}", event.at("path").get<std::string>()));
    } else if (kind == "note" && watcher_.note) {
      watcher_.note(event.at("text").get<std::string>());
    } else if (kind == "saved" && watcher_.note) {
      watcher_.note(fmt::format("checkpoint of step {} saved", event.at("step").get<std::int64_t>()));
    }
  };
  bool asked = false;
  const auto idle = [&] {
    if (!stop.stop_requested() || asked || stopping == Stopping::at_once) return;
    asked = true;
    std::ofstream(stop_file) << "stop\n";
    if (watcher_.note) watcher_.note("stopping after this step; once more ends it at once");
  };
  const ProcessEnd end =
      run_process(launch.command, take, idle, stopping == Stopping::at_once ? stop : std::stop_token{});
  std::filesystem::remove(stop_file);
  if (stopping == Stopping::at_once && stop.stop_requested()) throw Interrupted();
  if (end.code == 0) return;
  for (const json& error : told.errors)
    if (error.at("code").get<int>() == 2) throw ConfigError(error.at("text").get<std::string>());
  if (!told.waiting.empty()) throw SystemError(missing_text(told));
  if (!told.errors.empty()) {
    const json& error = told.errors.front();
    throw SystemError(
        fmt::format("rank {}: {}", error.at("rank").get<int>(), error.at("text").get<std::string>()));
  }
  std::smatch killed;
  const std::string all = end.errors + told.other;
  if (std::regex_search(
          all, killed,
          std::regex("process rank (\\d+) with PID (\\d+) on node (\\S+) exited on signal (\\d+)")))
    throw SystemError(
        fmt::format("rank {} (process {} on {}) was killed by signal {}; --resume goes on from the last "
                    "checkpoint",
                    killed[1].str(), killed[2].str(), killed[3].str(), killed[4].str()));
  throw SystemError(fmt::format("the ranks ended with code {}: {}", end.code, all.substr(0, 2000)));
}

void check_job(const std::filesystem::path& job) {
  json error;
  const ProcessEnd end = run_process(
      {find_worker(), "--check", job.string()},
      [&](const std::string& line) { error = json::parse(line, nullptr, false); }, [] {});
  if (end.code == 0) return;
  if (error.is_object() && error.contains("text")) throw ConfigError(error.at("text").get<std::string>());
  throw SystemError(fmt::format("tpplan-worker --check ended with code {}: {}", end.code, end.errors));
}

}  // namespace tpplan
