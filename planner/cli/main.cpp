#include <chrono>
#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <mutex>
#include <thread>
#include <unistd.h>

#include "planner/cli/command_line.hpp"
#include "planner/cli/render.hpp"
#include "planner/workbench/json.hpp"
#include "planner/workbench/workbench.hpp"
#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

enum ExitCode { kDone = 0, kFailed = 1, kUserMistake = 2, kInfeasible = 3, kInterrupted = 130 };

/// Turns the first SIGINT into a stop request and the second into the end of the process. Its own end wakes
/// the watching thread by SIGUSR1, so that nobody waits for a time-out.
class InterruptWatch {
 public:
  InterruptWatch() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    watcher_ = std::jthread([this](const std::stop_token& end) {
      while (!end.stop_requested()) {
        int signal = 0;
        if (sigwait(&signals_, &signal) == 0 && signal == SIGINT && !stop_.request_stop())
          _exit(kInterrupted);
      }
    });
  }
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;
  ~InterruptWatch() {
    watcher_.request_stop();
    pthread_kill(watcher_.native_handle(), SIGUSR1);
  }
  [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }

 private:
  sigset_t signals_{};
  std::stop_source stop_;
  std::jthread watcher_;
};

/// A bar on the terminal for work that takes longer than half a second. Nothing otherwise.
class ProgressBar {
 public:
  void operator()(double share) {
    if (!terminal_) return;
    const std::scoped_lock lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now - start_ < std::chrono::milliseconds(500) || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    shown_ = true;
    fmt::print(stderr, "\rsearching {:3.0f} %", 100 * share);
  }
  void clear() const {
    if (shown_) fmt::print(stderr, "\r                 \r");
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), last_{};
};

bool bold_on_stdout(Color color) {
  return color == Color::always || (color == Color::automatic && isatty(STDOUT_FILENO) != 0);
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw SystemError("standard output cannot be written");
}

template <class Report>
void print_report(const Report& report, const Settings& settings) {
  print(settings.json ? to_json(report) : render(report, bold_on_stdout(settings.color)));
}

int run_plan(const Workbench& workbench, const Settings& settings) {
  const InterruptWatch interrupt;
  ProgressBar bar;
  const PlanReport report = workbench.plan(settings, interrupt.token(), [&bar](double share) { bar(share); });
  bar.clear();
  if (interrupt.token().stop_requested()) {
    fmt::print(stderr, "tpplan: interrupted\n");
    return kInterrupted;
  }
  print_report(report, settings);
  return report.result.plans.empty() ? kInfeasible : kDone;
}

/// The progress of a run: a line that is written over on a terminal, a line every few seconds elsewhere.
class RunProgress {
 public:
  explicit RunProgress(bool quiet) : quiet_(quiet) {}
  RunWatcher watcher() {
    return {[this](const RunStep& step) { show(step); }, [this](const std::string& text) { note(text); }};
  }
  void clear() const {
    if (terminal_ && shown_) fmt::print(stderr, "\r\033[K");
  }

 private:
  void show(const RunStep& step) {
    if (quiet_) return;
    const auto now = std::chrono::steady_clock::now();
    const bool ends = step.step == 0 || step.step + 1 == step.steps;
    if (!terminal_ && !ends && now - last_ < std::chrono::seconds(5)) return;
    last_ = now;
    shown_ = true;
    const std::string line = render_step(step);
    fmt::print(stderr, "{}{}{}", terminal_ ? "\r\033[K" : "", line, terminal_ ? "" : "\n");
  }
  void note(const std::string& text) {
    clear();
    fmt::print(stderr, "{}\n", text);
  }

  bool quiet_;
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

/// Runs ranks, shows their progress and prints the report.
template <class Verb>
auto supervised(const Settings& settings, Verb verb) {
  const InterruptWatch interrupt;
  RunProgress progress(settings.json);
  const auto report = verb(interrupt.token(), progress.watcher());
  progress.clear();
  print_report(report, settings);
  return std::pair{report, interrupt.token().stop_requested()};
}

int run(const Command& command, const Workbench& workbench) {
  const Settings& settings = command.settings;
  switch (command.verb) {
    case Verb::plan:
      return run_plan(workbench, settings);
    case Verb::simulate: {
      const SimulateReport report = workbench.simulate(settings);
      print_report(report, settings);
      return report.violations.empty() && report.fits ? kDone : kInfeasible;
    }
    case Verb::check: {
      const CheckReport report = workbench.check(settings);
      print_report(report, settings);
      return report.violations.empty() ? kDone : kInfeasible;
    }
    case Verb::explain: {
      const ExplainReport report = workbench.explain(settings);
      print_report(report, settings);
      return report.violations.empty() && report.fits ? kDone : kInfeasible;
    }
    case Verb::run:
      return supervised(
                 settings,
                 [&](auto stop, auto watcher) {
                   return workbench.run(settings, stop, watcher);
                 }).second
                 ? kInterrupted
                 : kDone;
    case Verb::rehearse:
      return supervised(
                 settings,
                 [&](auto stop, auto watcher) {
                   return workbench.rehearse(settings, stop, watcher);
                 }).second
                 ? kInterrupted
                 : kDone;
    case Verb::verify: {
      const auto [report, interrupted] = supervised(
          settings, [&](auto stop, auto watcher) { return workbench.verify(settings, stop, watcher); });
      return interrupted ? kInterrupted : report.agrees() ? kDone : kFailed;
    }
    case Verb::compare:
      print_report(workbench.compare(settings), settings);
      return kDone;
    case Verb::probe:
      return supervised(
                 settings,
                 [&](auto stop, auto watcher) {
                   return workbench.probe(settings, stop, watcher);
                 }).second
                 ? kInterrupted
                 : kDone;
    case Verb::calibrate:
      print_report(workbench.calibrate(settings), settings);
      return kDone;
    case Verb::tune:
      return supervised(
                 settings,
                 [&](auto stop, auto watcher) {
                   return workbench.tune(settings, stop, watcher);
                 }).second
                 ? kInterrupted
                 : kDone;
    case Verb::topo: {
      const TopologyReport report = workbench.topology(settings);
      if (settings.dot)
        print(to_dot(report.topology));
      else
        print_report(report, settings);
      return kDone;
    }
    case Verb::model:
      print_report(workbench.model(settings), settings);
      return kDone;
    case Verb::validate:
      print_report(workbench.validate(settings), settings);
      return kDone;
    case Verb::list:
      if (command.options_page)
        print(options_markdown());
      else
        print_report(workbench.list(), settings);
      return kDone;
  }
  return kDone;
}

int guarded_main(const std::vector<std::string>& arguments) {
  try {
    const std::filesystem::path program = "/proc/self/exe";
    const auto parsed = parse_command_line(arguments, program);
    if (const auto* notice = std::get_if<Notice>(&parsed)) {
      print(notice->text);
      return kDone;
    }
    return run(std::get<Command>(parsed), Workbench(find_data_files(program)));
  } catch (const Interrupted& error) {
    fmt::print(stderr, "tpplan: {}\n", error.what());
    return kInterrupted;
  } catch (const ConfigError& error) {
    fmt::print(stderr, "tpplan: {}\n", error.what());
    return kUserMistake;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tpplan: {}\n", error.what());
    return kFailed;
  }
}

}  // namespace
}  // namespace tpplan

int main(int argc, char** argv) { return tpplan::guarded_main({argv + 1, argv + argc}); }
