#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <vector>

#include "executor/backend/operation_board.hpp"
#include "simulator/calibration/measurement.hpp"

namespace tpplan {

/// Times the tasks of one rank. Any of the rank's threads may record.
class Recorder {
 public:
  Recorder(int rank, bool keep) : rank_(rank), keep_(keep) {}

  /// Sets the clock to zero; called by all ranks together, after a barrier.
  void start_clock() { origin_ = std::chrono::steady_clock::now(); }
  void begin_step(int step) { step_ = step; }
  [[nodiscard]] Seconds now() const {
    return Seconds{std::chrono::duration<double>(std::chrono::steady_clock::now() - origin_).count()};
  }

  /// Times a task while it lives, and names it for whoever asks what hangs.
  class Span {
   public:
    Span(Recorder& recorder, const Task& task, Bytes bytes, int group);
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;
    ~Span();

   private:
    Recorder& recorder_;
    TaskLabel label_;
    Measurement measurement_;
    Seconds inner_before_;
  };
  [[nodiscard]] Span span(const Task& task, Bytes bytes = {}, int group = 1) {
    return {*this, task, bytes, group};
  }

  /// Adds to the communication inside the tasks of the rank's own thread.
  void add_communication(Seconds time) { inner_ += time; }
  /// Adds time in which the rank's own thread waited for a neighbour of the pipeline, or for gathers and
  /// reductions of the data-parallel group.
  void add_pipeline_wait(Seconds time) { pipeline_ += time; }
  void add_data_wait(Seconds time) { data_ += time; }
  /// Totals since the beginning.
  [[nodiscard]] Seconds communication() const { return inner_; }
  [[nodiscard]] Seconds pipeline_wait() const { return pipeline_; }
  [[nodiscard]] Seconds data_wait() const { return data_; }

  /// What was recorded since the last call.
  [[nodiscard]] std::vector<Measurement> take();

 private:
  void add(Measurement measurement);

  int rank_;
  bool keep_;
  int step_ = 0;
  Seconds inner_, pipeline_, data_;
  std::chrono::steady_clock::time_point origin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::vector<Measurement> measurements_;
};

}  // namespace tpplan
