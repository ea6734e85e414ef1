#include <gtest/gtest.h>
#include <random>

#include "simulator/engine/task_graph.hpp"

namespace tpplan {
namespace {

Task task(int device, StreamKind stream, double seconds) {
  return {.stream = stream, .device = static_cast<std::int16_t>(device), .duration = Seconds{seconds}};
}

TEST(EventLoop, AStreamRunsItsTasksInOrder) {
  TaskGraph graph(1);
  const auto a = graph.add(task(0, StreamKind::compute, 2));
  const auto b = graph.add(task(0, StreamKind::compute, 3));
  const auto late = graph.add(task(0, StreamKind::dp, 10));
  graph.depend(a, late);  // a waits, so b waits behind it
  const Timeline timeline = simulate(graph, {});
  EXPECT_EQ(timeline.intervals[static_cast<std::size_t>(a)].start, Seconds{10});
  EXPECT_EQ(timeline.intervals[static_cast<std::size_t>(b)].start, Seconds{12});
  EXPECT_EQ(timeline.makespan, Seconds{15});
}

TEST(EventLoop, ComputeIsSlowedForExactlyTheOverlap) {
  // 10 s of compute; from 2 s to 5 s a collective runs beside it and compute goes at half speed: of the 3 s
  // it loses 1.5 s.
  TaskGraph graph(2);
  const auto compute = graph.add(task(0, StreamKind::compute, 10));
  const auto before = graph.add(task(1, StreamKind::compute, 2));
  const auto collective = graph.add(task(0, StreamKind::dp, 3));
  graph.depend(collective, before);
  const Timeline timeline = simulate(graph, {.slowdown = 1});
  EXPECT_NEAR(timeline.intervals[static_cast<std::size_t>(compute)].end.value(), 11.5, 1e-12);
  EXPECT_NEAR(timeline.intervals[static_cast<std::size_t>(collective)].end.value(), 5, 1e-12);
}

TEST(EventLoop, ComputeThatStartsBesideACollectiveIsSlowToo) {
  // The collective runs 0 .. 4 s; 3 s of compute started at 0 takes 4 s for 2 s of work, then 1 s more.
  TaskGraph graph(1);
  graph.add(task(0, StreamKind::dp, 4));
  const auto compute = graph.add(task(0, StreamKind::compute, 3));
  const Timeline timeline = simulate(graph, {.slowdown = 1});
  EXPECT_NEAR(timeline.intervals[static_cast<std::size_t>(compute)].end.value(), 5, 1e-12);
}

TEST(EventLoop, OtherDevicesAreNotSlowed) {
  TaskGraph graph(2);
  graph.add(task(0, StreamKind::dp, 4));
  const auto compute = graph.add(task(1, StreamKind::compute, 3));
  EXPECT_EQ(simulate(graph, {.slowdown = 1}).intervals[static_cast<std::size_t>(compute)].end, Seconds{3});
}

/// Start times by repeated relaxation until nothing changes: quadratic, and obviously right without
/// contention.
std::vector<double> reference_ends(const TaskGraph& graph) {
  const auto& tasks = graph.tasks();
  std::vector<double> end(tasks.size(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      double start = 0;
      for (std::size_t j = 0; j < i; ++j)
        if (tasks[j].device == tasks[i].device && tasks[j].stream == tasks[i].stream)
          start = std::max(start, end[j]);
      for (const auto& d : graph.dependencies())
        if (d.task == static_cast<TaskGraph::Id>(i))
          start = std::max(start, end[static_cast<std::size_t>(d.before)]);
      const double now = start + tasks[i].duration.value();
      changed = changed || now != end[i];
      end[i] = now;
    }
  }
  return end;
}

TaskGraph random_graph(unsigned seed) {
  std::mt19937 random(seed);
  TaskGraph graph(3);
  const int count = 40;
  for (int i = 0; i < count; ++i)
    graph.add(task(static_cast<int>(random() % 3), static_cast<StreamKind>(random() % kStreamsPerDevice),
                   random() % 8));
  for (int i = 1; i < count; ++i)
    for (unsigned k = random() % 3; k > 0; --k)
      graph.depend(i, static_cast<TaskGraph::Id>(random() % static_cast<unsigned>(i)));
  return graph;
}

TEST(EventLoop, EqualsTheReferenceOnRandomGraphs) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const TaskGraph graph = random_graph(seed);
    const Timeline timeline = simulate(graph, {});
    const std::vector<double> expected = reference_ends(graph);
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_DOUBLE_EQ(timeline.intervals[i].end.value(), expected[i]) << "seed " << seed << " task " << i;
  }
}

TEST(EventLoop, ContentionOnlyDelaysAndIsDeterministic) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const TaskGraph graph = random_graph(seed);
    const Timeline free = simulate(graph, {}), slowed = simulate(graph, {.slowdown = 0.3}),
                   again = simulate(graph, {.slowdown = 0.3});
    EXPECT_GE(slowed.makespan, free.makespan);
    for (std::size_t i = 0; i < free.intervals.size(); ++i) {
      EXPECT_EQ(slowed.intervals[i].start, again.intervals[i].start);
      const double took = (slowed.intervals[i].end - slowed.intervals[i].start).value();
      EXPECT_LE(took, graph.tasks()[i].duration.value() * 1.3 + 1e-9);
    }
  }
}

TEST(EventLoop, ACycleIsReportedAsOurBug) {
  TaskGraph graph(1);
  const auto a = graph.add(task(0, StreamKind::compute, 1));
  const auto b = graph.add(task(0, StreamKind::dp, 1));
  graph.depend(a, b);
  graph.depend(b, a);
  EXPECT_THROW((void)simulate(graph, {}), std::logic_error);
}

TEST(Label, NamesStageMicroBatchAndPart) {
  EXPECT_EQ(label({.kind = TaskKind::backward, .stage = 1, .microbatch = 3}), "s1.mb3.bwd");
  EXPECT_EQ(label({.kind = TaskKind::reduce, .stream = StreamKind::dp, .stage = 1, .index = 2}),
            "s1.dp.reduce.b2");
  EXPECT_EQ(label({.kind = TaskKind::send, .stage = 0, .microbatch = 2, .pass = Pass::backward}),
            "s0.mb2.send_bwd");
}

TEST(EventLoop, RanksThatShareCoresGoOnAtTheirShare) {
  // Two devices of two ranks each on two cores. Alone a device has both cores; together each rank has half.
  TaskGraph graph(2);
  const auto compute = [&](int device, double seconds) {
    return graph.add({.device = static_cast<std::int16_t>(device), .duration = Seconds{seconds}});
  };
  const auto first = compute(0, 3), second = compute(1, 1);
  const Contention sharing{.shared_cores = 2, .ranks_of_device = 2};
  const Timeline timeline = simulate(graph, sharing);
  // Both run until the second has done 1 s of work in 2 s; the first has then 2 s left, alone.
  EXPECT_EQ(timeline.intervals[static_cast<std::size_t>(second)].end, Seconds{2});
  EXPECT_EQ(timeline.intervals[static_cast<std::size_t>(first)].end, Seconds{4});
  EXPECT_EQ(simulate(graph, {.shared_cores = 4, .ranks_of_device = 2}).makespan, Seconds{3});
}

TEST(EventLoop, ASumOverANetworkLeavesTheCoresToComputation) {
  TaskGraph graph(1);
  (void)graph.add({.duration = Seconds{2}});
  (void)graph.add({.stream = StreamKind::dp, .duration = Seconds{2}});
  EXPECT_EQ(simulate(graph, {.shared_cores = 1}).makespan, Seconds{4});
  EXPECT_EQ(simulate(graph, {.shared_cores = 1, .reductions_compute = false}).makespan, Seconds{2});
}

}  // namespace
}  // namespace tpplan
