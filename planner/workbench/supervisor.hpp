#pragma once

#include <filesystem>
#include <stop_token>

#include "planner/workbench/run_reports.hpp"

namespace tpplan {

/// When ranks that are asked to stop do so.
enum class Stopping { after_step, at_once };

/// Starts the ranks of a job and turns what they tell into a report.
class Supervisor {
 public:
  Supervisor(std::filesystem::path folder, const RunWatcher& watcher)
      : folder_(std::move(folder)), watcher_(watcher) {}

  /// Returns when all ranks have ended. Throws ConfigError or SystemError with what the ranks told: of a
  /// collective that waits for somebody, which ranks are missing from it. `stop` puts a file named stop into
  /// the folder, which the ranks see after their step; or it ends them at once, and Interrupted is thrown.
  void run(const Launch& launch, const std::stop_token& stop, RunReport& report,
           Stopping stopping = Stopping::after_step);

 private:
  struct Told;
  [[nodiscard]] static std::string missing_text(const Told& told);

  std::filesystem::path folder_;
  const RunWatcher& watcher_;
};

/// Runs `tpplan-worker --check`: throws ConfigError with what the worker cannot run.
void check_job(const std::filesystem::path& job);

}  // namespace tpplan
