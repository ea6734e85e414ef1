#include <cassert>
#include <limits>
#include <stdexcept>

#include "simulator/engine/task_graph.hpp"

namespace tpplan {
namespace {

using Id = TaskGraph::Id;
constexpr double kNever = std::numeric_limits<double>::infinity();

/// Items grouped by a key, in compressed rows: row(k) is the range of items of key k, in the order they were
/// given.
struct Rows {
  std::vector<std::int32_t> start;
  std::vector<Id> items;

  template <class Count, class Fill>
  Rows(std::size_t keys, std::size_t size, Count key_of, Fill item_of) : start(keys + 1, 0), items(size) {
    for (std::size_t i = 0; i < size; ++i) ++start[key_of(i) + 1];
    for (std::size_t k = 0; k < keys; ++k) start[k + 1] += start[k];
    std::vector<std::int32_t> next(start.begin(), start.end() - 1);
    for (std::size_t i = 0; i < size; ++i) items[static_cast<std::size_t>(next[key_of(i)]++)] = item_of(i);
  }
};

/// The streams' finish times as a tournament: the earliest is at the root, and a change costs log2(streams)
/// comparisons. Equal times go to the lower stream.
class Tournament {
 public:
  explicit Tournament(std::size_t streams) {
    while (leaves_ < streams) leaves_ *= 2;
    time_.assign(leaves_, kNever);
    winner_.assign(2 * leaves_, 0);
    for (std::size_t i = 0; i < leaves_; ++i) winner_[leaves_ + i] = static_cast<std::int32_t>(i);
    for (std::size_t i = leaves_ - 1; i > 0; --i) winner_[i] = winner_[2 * i];
  }
  void set(std::size_t stream, double time) {
    time_[stream] = time;
    for (std::size_t i = (leaves_ + stream) / 2; i > 0; i /= 2) {
      const std::int32_t left = winner_[2 * i], right = winner_[2 * i + 1];
      winner_[i] =
          time_[static_cast<std::size_t>(right)] < time_[static_cast<std::size_t>(left)] ? right : left;
    }
  }
  [[nodiscard]] std::size_t earliest() const { return static_cast<std::size_t>(winner_[1]); }
  [[nodiscard]] double time(std::size_t stream) const { return time_[stream]; }

 private:
  std::size_t leaves_ = 1;
  std::vector<double> time_;
  std::vector<std::int32_t> winner_;
};

class EventLoop {
 public:
  EventLoop(const TaskGraph& graph, const Contention& contention)
      : graph_(graph),
        tasks_(graph.tasks()),
        slowdown_(1 + contention.slowdown),
        cores_per_device_(contention.shared_cores / contention.ranks_of_device),
        reductions_compute_(contention.reductions_compute),
        queues_(
            streams(), tasks_.size(), [&](std::size_t i) { return stream_of(tasks_[i]); },
            [](std::size_t i) { return static_cast<Id>(i); }),
        followers_(
            tasks_.size(), graph.dependencies().size(),
            [&](std::size_t i) { return static_cast<std::size_t>(graph.dependencies()[i].before); },
            [&](std::size_t i) { return graph.dependencies()[i].task; }),
        missing_(tasks_.size(), 0),
        head_(queues_.start.begin(), queues_.start.end() - 1),
        finish_(streams()) {
    for (const TaskGraph::Dependency& d : graph.dependencies()) ++missing_[static_cast<std::size_t>(d.task)];
    timeline_.intervals.resize(tasks_.size());
  }

  Timeline run() {
    for (std::size_t stream = 0; stream < streams(); ++stream) start_if_ready(stream);
    std::size_t done = 0;
    while (true) {
      const std::size_t stream = finish_.earliest();
      const double time = finish_.time(stream);
      if (time == kNever) break;
      now_ = time;
      complete(stream);
      ++done;
    }
    if (done != tasks_.size()) fail_on_cycle();
    timeline_.makespan = Seconds{now_};
    return std::move(timeline_);
  }

 private:
  [[nodiscard]] std::size_t streams() const {
    return static_cast<std::size_t>(graph_.devices()) * kStreamsPerDevice;
  }
  [[nodiscard]] static std::size_t stream_of(const Task& task) {
    return static_cast<std::size_t>(task.device) * kStreamsPerDevice + static_cast<std::size_t>(task.stream);
  }
  [[nodiscard]] static std::size_t sibling(std::size_t stream, StreamKind kind) {
    return stream / kStreamsPerDevice * kStreamsPerDevice + static_cast<std::size_t>(kind);
  }
  [[nodiscard]] static StreamKind kind_of(std::size_t stream) {
    return static_cast<StreamKind>(stream % kStreamsPerDevice);
  }
  [[nodiscard]] bool running(std::size_t stream) const { return finish_.time(stream) != kNever; }

  void start_if_ready(std::size_t stream) {
    if (running(stream) || head_[stream] == queues_.start[stream + 1]) return;
    const auto id = static_cast<std::size_t>(queues_.items[static_cast<std::size_t>(head_[stream])]);
    if (missing_[id] > 0) return;
    timeline_.intervals[id].start = Seconds{now_};
    double duration = tasks_[id].duration.value();
    if (kind_of(stream) == StreamKind::compute && running(sibling(stream, StreamKind::dp)))
      duration *= slowdown_;
    if (needs_core(stream)) {
      share_cores(1);
      duration /= speed_;
    }
    finish_.set(stream, now_ + duration);
    if (kind_of(stream) == StreamKind::dp) stretch(sibling(stream, StreamKind::compute), slowdown_);
  }

  /// What is left of the running task of `stream` takes `factor` times as long from now on.
  void stretch(std::size_t stream, double factor) {
    if (running(stream)) finish_.set(stream, now_ + (finish_.time(stream) - now_) * factor);
  }

  /// Where cores are shared, a collective beside the computation adds its numbers on one of them too.
  [[nodiscard]] bool needs_core(std::size_t stream) const {
    return cores_per_device_ > 0 && (kind_of(stream) == StreamKind::compute ||
                                     (reductions_compute_ && kind_of(stream) == StreamKind::dp));
  }

  /// `change` tasks more need a core from now on: all the others go on at their new share of the cores.
  void share_cores(int change) {
    computing_ += change;
    const double before = speed_;
    speed_ = computing_ > cores_per_device_ ? cores_per_device_ / computing_ : 1;
    if (speed_ == before) return;
    for (std::size_t stream = 0; stream < streams(); ++stream)
      if (needs_core(stream)) stretch(stream, before / speed_);
  }

  void complete(std::size_t stream) {
    const auto id = static_cast<std::size_t>(queues_.items[static_cast<std::size_t>(head_[stream])]);
    timeline_.intervals[id].end = Seconds{now_};
    ++head_[stream];
    finish_.set(stream, kNever);
    if (needs_core(stream)) share_cores(-1);
    const bool communication = kind_of(stream) == StreamKind::dp;
    if (communication) stretch(sibling(stream, StreamKind::compute), 1 / slowdown_);
    start_if_ready(stream);
    for (std::int32_t i = followers_.start[id]; i < followers_.start[id + 1]; ++i) {
      const auto follower = static_cast<std::size_t>(followers_.items[static_cast<std::size_t>(i)]);
      if (--missing_[follower] == 0) start_if_ready(stream_of(tasks_[follower]));
    }
  }

  [[noreturn]] void fail_on_cycle() const {
    for (std::size_t stream = 0; stream < streams(); ++stream)
      if (head_[stream] != queues_.start[stream + 1])
        throw std::logic_error(
            "task graph has a cycle at " +
            label(tasks_[static_cast<std::size_t>(queues_.items[static_cast<std::size_t>(head_[stream])])]));
    throw std::logic_error("task graph has a cycle");
  }

  const TaskGraph& graph_;
  const std::vector<Task>& tasks_;
  double slowdown_;
  double cores_per_device_;  // of those that are shared; 0: none are
  bool reductions_compute_;
  double speed_ = 1;                   // of tasks on those, by their share
  int computing_ = 0;                  // tasks that need one and run
  Rows queues_;                        // tasks by stream, in order
  Rows followers_;                     // tasks that wait for a task
  std::vector<std::int32_t> missing_;  // dependencies not yet done, by task
  std::vector<std::int32_t> head_;     // next task of each stream, as an index into queues_.items
  Tournament finish_;                  // when the running task of each stream ends
  double now_ = 0;
  Timeline timeline_;
};

}  // namespace

Timeline simulate(const TaskGraph& graph, const Contention& contention) {
  return EventLoop(graph, contention).run();
}

}  // namespace tpplan
