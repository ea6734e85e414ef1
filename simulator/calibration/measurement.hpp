#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "simulator/engine/task_graph.hpp"
#include "simulator/units/units.hpp"

namespace tpplan {

/// One task as a rank ran it. The label is that of the same task in a Timeline, so comparing is a join.
struct Measurement {
  int step = 0;
  int rank = 0;
  std::string label;
  StreamKind stream = StreamKind::compute;
  Seconds start;  // since the rank's clock was set, before the first step
  Seconds duration;
  Seconds communication;  // inside the task: collectives of the tensor-parallel group
  Bytes bytes;            // moved or reduced by a communication task
  int group = 1;          // ranks that took part
  bool operator==(const Measurement&) const = default;
};

/// One line of measurements.jsonl.
[[nodiscard]] std::string to_json_line(const Measurement& measurement);

/// The machine and software that a run was measured on: the first line of measurements.jsonl.
struct Environment {
  std::string cpu;
  int cores = 0;
  std::string backend;    // "cpu-v4"
  std::string transport;  // "Open MPI v4.1.4", "threads"
  std::string version;    // of tpplan
  int ranks = 0;
  int threads = 1;  // of a rank
  int hosts = 1;
  bool operator==(const Environment&) const = default;
};
[[nodiscard]] std::string to_json_line(const Environment& environment);

/// Reads the same back. Throws std::exception when it is something else.
[[nodiscard]] Environment environment_from_json(const std::string& text);

struct RecordedRun {
  Environment environment;
  std::vector<Measurement> measurements;
};

/// Reads measurements.jsonl. A line that is no measurement is a ConfigError with its number; a last line that
/// was cut off by the end of the run is left out.
[[nodiscard]] RecordedRun read_measurements(const std::filesystem::path& file);

}  // namespace tpplan
