#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/plan/schedule.hpp"
#include "simulator/units/units.hpp"

namespace tpplan {

enum class StreamKind : std::uint8_t { compute, tp, pp, dp };
inline constexpr int kStreamsPerDevice = 4;

enum class TaskKind : std::uint8_t { forward, backward, send, reduce, gather, optimizer, norm, fixed };

/// One unit of work on one stream of one device (a device stands for all ranks of a pipeline rank: their
/// replicas are identical). Kept small: a simulation holds hundreds of thousands.
struct Task {
  TaskKind kind = TaskKind::forward;
  StreamKind stream = StreamKind::compute;
  std::int16_t device = 0;       // pipeline rank
  std::int32_t stage = 0;        // model chunk; part of the label
  std::int32_t microbatch = -1;  // -1: not of one micro-batch
  std::int32_t index = -1;       // bucket or layer within the task's family; -1: the whole
  Pass pass = Pass::forward;     // of a send, gather or reduction: which pass it serves
  Seconds duration;              // alone on its device
  Bytes bytes;                   // that a communication task moves per rank; for reports
  Flops flops;                   // that a compute task executes; for reports
};

/// Tasks with their dependencies. Each (device, stream) runs its tasks in the order in which they were added;
/// a task starts when its stream is free and all its dependencies are done.
class TaskGraph {
 public:
  using Id = std::int32_t;

  explicit TaskGraph(int devices) : devices_(devices) {}
  void reserve(std::size_t tasks, std::size_t dependencies);
  Id add(const Task& task);
  /// `task` waits for `before`. Either may have been added first.
  void depend(Id task, Id before);

  [[nodiscard]] int devices() const { return devices_; }
  [[nodiscard]] const std::vector<Task>& tasks() const { return tasks_; }
  struct Dependency {
    Id task, before;
  };
  [[nodiscard]] const std::vector<Dependency>& dependencies() const { return dependencies_; }

 private:
  int devices_;
  std::vector<Task> tasks_;
  std::vector<Dependency> dependencies_;
};

/// "s1.mb3.bwd", "s1.dp.reduce_scatter.b2": the same in Timeline and Measurement.
[[nodiscard]] std::string label(const Task& task);

/// When each task ran.
struct Interval {
  Seconds start, end;
};

struct Timeline {
  std::vector<Interval> intervals;  // by task id
  Seconds makespan;
};

struct Contention {
  /// Compute runs at 1 / (1 + slowdown) of its speed while a data-parallel collective runs on the same
  /// device, because the collective's kernels take multiprocessors and memory bandwidth.
  double slowdown = 0;
  /// Cores that all ranks share, when they are processes of one machine; 0: every rank has its own. Of the
  /// running compute tasks and data-parallel collectives, each stands for `ranks_of_device` ranks; where
  /// these are more than the cores, all go on at cores / ranks of their speed (processor sharing).
  double shared_cores = 0;
  int ranks_of_device = 1;
  bool reductions_compute = true;  // false: they go over a network, which they wait for
};

/// Deterministic discrete-event simulation: events in order of time, ties by task id. Asserts that the graph
/// is acyclic; a schedule that could deadlock is refused before (find_deadlock). O(tasks log streams).
[[nodiscard]] Timeline simulate(const TaskGraph& graph, const Contention& contention);

}  // namespace tpplan
