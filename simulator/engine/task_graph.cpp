#include "simulator/engine/task_graph.hpp"

#include <fmt/format.h>

namespace tpplan {

void TaskGraph::reserve(std::size_t tasks, std::size_t dependencies) {
  tasks_.reserve(tasks);
  dependencies_.reserve(dependencies);
}

TaskGraph::Id TaskGraph::add(const Task& task) {
  tasks_.push_back(task);
  return static_cast<Id>(tasks_.size() - 1);
}

void TaskGraph::depend(Id task, Id before) { dependencies_.push_back({task, before}); }

std::string label(const Task& task) {
  const bool forward = task.pass == Pass::forward;
  std::string text = fmt::format("s{}", task.stage);
  if (task.microbatch >= 0) text += fmt::format(".mb{}", task.microbatch);
  switch (task.kind) {
    case TaskKind::forward:
      text += ".fwd";
      break;
    case TaskKind::backward:
      text += ".bwd";
      break;
    case TaskKind::send:
      text += forward ? ".send_fwd" : ".send_bwd";
      break;
    case TaskKind::reduce:
      text += task.stream == StreamKind::pp ? ".tied.all_reduce" : ".dp.reduce";
      break;
    case TaskKind::gather:
      text += task.microbatch < 0 ? ".dp.all_gather" : forward ? ".dp.all_gather_fwd" : ".dp.all_gather_bwd";
      break;
    case TaskKind::optimizer:
      text += ".optimizer";
      break;
    case TaskKind::norm:
      text = "gradient_norm";
      break;
    case TaskKind::fixed:
      text = "end_of_step";
      break;
  }
  const bool of_bucket = task.kind == TaskKind::reduce || task.kind == TaskKind::gather;
  if (task.index >= 0) text += fmt::format(".{}{}", of_bucket ? 'b' : 'l', task.index);
  return text;
}

}  // namespace tpplan
