#include "simulator/engine/trace.hpp"

#include <algorithm>
#include <cassert>
#include <fmt/format.h>
#include <map>
#include <tuple>

namespace tpplan {
namespace {

constexpr std::array<const char*, kStreamsPerDevice> kStreamNames{"compute", "gradient norm", "pipeline send",
                                                                  "data parallel"};
constexpr std::array<const char*, 8> kCategories{"forward", "backward",  "send", "reduce",
                                                 "gather",  "optimizer", "norm", "fixed"};

void append_names(std::string& out, int devices) {
  for (int device = 0; device < devices; ++device) {
    out += fmt::format(
        R"({{"ph":"M","pid":{0},"name":"process_name","args":{{"name":"pipeline rank {0}"}}}},)", device);
    out += '\n';
    for (int stream = 0; stream < kStreamsPerDevice; ++stream) {
      out += fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}}}},)",
                         device, stream, kStreamNames[static_cast<std::size_t>(stream)]);
      out += '\n';
    }
  }
}

/// Activation memory of one device over time: it rises when a forward ends and falls when the last task of a
/// backward ends.
void append_memory(std::string& out, const ParallelPlan& plan, const SimulationReport& report, int device,
                   Bytes per_layer) {
  // The end of the last segment of each pass of each micro-batch through each stage.
  std::map<std::tuple<int, int, TaskKind>, double> ends;
  const auto& tasks = report.graph->tasks();
  for (std::size_t id = 0; id < tasks.size(); ++id) {
    const Task& task = tasks[id];
    if (task.device != device || (task.kind != TaskKind::forward && task.kind != TaskKind::backward))
      continue;
    double& end = ends[{task.stage, task.microbatch, task.kind}];
    end = std::max(end, report.timeline->intervals[id].end.value());
  }
  struct Change {
    double time, bytes;
  };
  std::vector<Change> changes;
  for (const auto& [key, end] : ends) {
    const auto& [stage, microbatch, kind] = key;
    const double bytes = plan.stages[static_cast<std::size_t>(stage)].layers * per_layer.value();
    changes.push_back({end, kind == TaskKind::forward ? bytes : -bytes});
  }
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Change& a, const Change& b) { return a.time < b.time; });
  const StageMemory& memory = report.memory.ranks[static_cast<std::size_t>(device)];
  const double fixed = (memory.of(MemoryCategory::weights) + memory.of(MemoryCategory::gradients) +
                        memory.of(MemoryCategory::optimizer_state) + memory.of(MemoryCategory::context))
                           .value();
  double held = 0;
  const auto counter = [&](double time) {
    out += fmt::format(
        R"({{"ph":"C","pid":{},"ts":{:.3f},"name":"memory","args":{{"model state":{:.0f},"activations":{:.0f}}}}},)",
        device, time * 1e6, fixed, held);
    out += '\n';
  };
  counter(0);
  for (const Change& change : changes) {
    held += change.bytes;
    counter(change.time);
  }
}

}  // namespace

std::string chrome_trace(const ParallelPlan& plan, const SimulationReport& report, Bytes saved_per_layer) {
  assert(report.graph && report.timeline);
  std::string out = "[\n";
  append_names(out, report.graph->devices());
  for (int device = 0; device < report.graph->devices(); ++device)
    append_memory(out, plan, report, device, saved_per_layer);
  const auto& tasks = report.graph->tasks();
  for (std::size_t id = 0; id < tasks.size(); ++id) {
    const Task& task = tasks[id];
    const Interval& ran = report.timeline->intervals[id];
    out += fmt::format(
        R"({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":"{}","cat":"{}","args":{{)",
        task.device, static_cast<int>(task.stream), ran.start.value() * 1e6,
        (ran.end - ran.start).value() * 1e6, label(task), kCategories[static_cast<std::size_t>(task.kind)]);
    if (task.flops.value() > 0) out += fmt::format(R"("FLOPs":{:.6e})", task.flops.value());
    if (task.bytes.value() > 0)
      out += fmt::format(R"({}"bytes":{:.0f})", task.flops.value() > 0 ? "," : "", task.bytes.value());
    out += id + 1 < tasks.size() ? "}},\n" : "}}\n";
  }
  return out + "]\n";
}

}  // namespace tpplan
