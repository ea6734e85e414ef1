#include <algorithm>
#include <cmath>

#include "simulator/engine/simulation.hpp"
#include "simulator/plan/buckets.hpp"

namespace tpplan {
namespace {

using Id = TaskGraph::Id;
constexpr Id kNone = -1;

/// A part of one op, cut where a gather must be done before it or a reduction can start after it.
struct Segment {
  Seconds compute;
  Flops flops;
  double parameters = 0;
  Seconds gather, reduce;
};

class Lowering {
 public:
  Lowering(const ParallelPlan& plan, const Schedule& schedule, const PlanCosts& costs)
      : plan_(plan),
        schedule_(schedule),
        costs_(costs),
        stages_(static_cast<int>(plan.stages.size())),
        zero3_(costs.layer.gather.value() > 0),
        graph_(schedule.ranks),
        ranks_(static_cast<std::size_t>(schedule.ranks)),
        done_(static_cast<std::size_t>(schedule.microbatches) * plan.stages.size() * 2, kNone),
        starts_(done_.size(), kNone) {}

  [[nodiscard]] TaskGraph run() {
    const std::size_t ops = plan_.stages.size() * static_cast<std::size_t>(schedule_.microbatches) * 2;
    graph_.reserve(2 * ops + 64, 4 * ops + 64);
    for (int rank = 0; rank < schedule_.ranks; ++rank) {
      lower_first_gathers(rank);
      for (const ScheduledOp& op : schedule_.ops[static_cast<std::size_t>(rank)]) lower_op(rank, op);
    }
    connect_stages();
    lower_end_of_step();
    return std::move(graph_);
  }

 private:
  struct Rank {
    Id compute = kNone, compute_before = kNone;  // the last two compute tasks
    Id reduce = kNone;                           // the last reduction
    std::vector<std::vector<Id>> first_gathers;  // [chunk][segment]
  };

  [[nodiscard]] std::vector<Segment> cut(int stage, Pass pass, int parts) const;
  [[nodiscard]] int bucket_parts(int rank, int stage) const;
  [[nodiscard]] bool reduced_here(const ScheduledOp& op) const;
  void lower_first_gathers(int rank);
  void lower_op(int rank, const ScheduledOp& op);
  void lower_reduction(int rank, int stage, const ScheduledOp& op, const Segment& segment, int index);
  Id gather_segment(int rank, int stage, const ScheduledOp& op, const Segment& segment, int index);
  void connect_stages();
  void lower_end_of_step();

  [[nodiscard]] std::size_t slot(int stage, int microbatch, Pass pass) const {
    return (static_cast<std::size_t>(microbatch) * static_cast<std::size_t>(stages_) +
            static_cast<std::size_t>(stage)) *
               2 +
           static_cast<std::size_t>(pass);
  }
  [[nodiscard]] Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  void depend(Id task, Id before) {
    if (before != kNone) graph_.depend(task, before);
  }
  /// Whether the input of this op comes over a link.
  [[nodiscard]] Seconds incoming(int stage, Pass pass) const {
    if (costs_.transfer.empty()) return {};
    if (pass == Pass::forward)
      return stage > 0 ? costs_.transfer[static_cast<std::size_t>(stage) - 1] : Seconds{};
    return stage + 1 < stages_ ? costs_.transfer[static_cast<std::size_t>(stage)] : Seconds{};
  }

  const ParallelPlan& plan_;
  const Schedule& schedule_;
  const PlanCosts& costs_;
  int stages_;
  bool zero3_;
  TaskGraph graph_;
  std::vector<Rank> ranks_;
  std::vector<Id>
      done_;  // by slot: what the next stage waits for (the send, or the op itself on the same rank)
  std::vector<Id> starts_;  // by slot: the first task of the op
};

/// The blocks of a stage in the order of the pass, dealt out evenly over `parts` segments.
std::vector<Segment> Lowering::cut(int stage, Pass pass, int parts) const {
  const auto index = static_cast<std::size_t>(stage);
  const bool forward = pass == Pass::forward;
  if (parts <= 1 && !zero3_) {
    const Phase& all = forward ? costs_.stages[index].forward : costs_.stages[index].backward;
    return {Segment{all.total() * costs_.straggler, all.flops, costs_.parameters[index], {}, {}}};
  }
  const Stage& range = plan_.stages[index];
  std::vector<const Block*> blocks;
  if (range.embedding) blocks.push_back(&costs_.embedding);
  blocks.insert(blocks.end(), static_cast<std::size_t>(range.layers), &costs_.layer);
  if (range.head) blocks.push_back(&costs_.head);
  if (!forward) std::reverse(blocks.begin(), blocks.end());

  std::vector<Segment> segments(static_cast<std::size_t>(parts));
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    Segment& segment = segments[static_cast<std::size_t>(
        bucket_of_block(static_cast<int>(b), static_cast<int>(blocks.size()), parts))];
    const Phase& phase = forward ? blocks[b]->passes.forward : blocks[b]->passes.backward;
    segment.compute += phase.total() * costs_.straggler;
    segment.flops += phase.flops;
    segment.parameters += blocks[b]->parameters;
    segment.gather += blocks[b]->gather;
    segment.reduce += blocks[b]->reduce;
  }
  return segments;
}

int Lowering::bucket_parts(int rank, int stage) const {
  const RankCosts& costs = costs_.ranks[static_cast<std::size_t>(rank)];
  return stage_buckets(plan_, plan_.stages[static_cast<std::size_t>(stage)],
                       costs_.parameters[static_cast<std::size_t>(stage)], costs.parameters, costs.buckets);
}

bool Lowering::reduced_here(const ScheduledOp& op) const {
  if (op.pass == Pass::forward) return false;
  if (plan_.zero >= ZeroStage::gradients) return true;
  return op.microbatch == (schedule_.kind == ScheduleKind::gpipe ? 0 : schedule_.microbatches - 1);
}

void Lowering::lower_first_gathers(int rank) {
  const RankCosts& costs = costs_.ranks[static_cast<std::size_t>(rank)];
  if (!costs_.gathers_overlap || costs.gather.value() <= 0) return;
  for (int chunk = 0; chunk < schedule_.chunks; ++chunk) {
    const int stage = chunk * plan_.pp + rank;
    std::vector<Id> ids;
    int index = 0;
    for (const Segment& segment : cut(stage, Pass::forward, bucket_parts(rank, stage)))
      ids.push_back(graph_.add({.kind = TaskKind::gather,
                                .stream = StreamKind::dp,
                                .device = static_cast<std::int16_t>(rank),
                                .stage = stage,
                                .index = index++,
                                .duration = costs.gather * (segment.parameters / costs.parameters),
                                .bytes = Bytes{segment.parameters * element_bytes(plan_.precision)}}));
    at(rank).first_gathers.push_back(std::move(ids));
  }
}

Id Lowering::gather_segment(int rank, int stage, const ScheduledOp& op, const Segment& segment, int index) {
  const Id id = graph_.add({.kind = TaskKind::gather,
                            .stream = StreamKind::dp,
                            .device = static_cast<std::int16_t>(rank),
                            .stage = stage,
                            .microbatch = op.microbatch,
                            .index = index,
                            .pass = op.pass,
                            .duration = segment.gather,
                            .bytes = Bytes{segment.parameters * element_bytes(plan_.precision)}});
  // At most two gathered segments live at once: the one in use and the next.
  depend(id, costs_.reduces_overlap ? at(rank).compute_before : at(rank).compute);
  return id;
}

void Lowering::lower_reduction(int rank, int stage, const ScheduledOp& op, const Segment& segment,
                               int index) {
  const RankCosts& costs = costs_.ranks[static_cast<std::size_t>(rank)];
  const Seconds duration = zero3_ ? segment.reduce : costs.reduce * (segment.parameters / costs.parameters);
  if (duration.value() <= 0) return;
  const Id id = graph_.add({.kind = TaskKind::reduce,
                            .stream = StreamKind::dp,
                            .device = static_cast<std::int16_t>(rank),
                            .stage = stage,
                            .microbatch = plan_.zero >= ZeroStage::gradients ? op.microbatch : -1,
                            .index = index,
                            .pass = Pass::backward,
                            .duration = duration,
                            .bytes = Bytes{segment.parameters * costs_.gradient_bytes}});
  depend(id, at(rank).compute);
  at(rank).reduce = id;
}

void Lowering::lower_op(int rank, const ScheduledOp& op) {
  const int stage = op.chunk * plan_.pp + rank;
  Rank& state = at(rank);
  const bool reduces = reduced_here(op) && costs_.reduces_overlap;
  const bool waits = op.pass == Pass::forward && op.microbatch == 0 && !state.first_gathers.empty();
  const std::vector<Segment> segments =
      cut(stage, op.pass, zero3_ || reduces || waits ? bucket_parts(rank, stage) : 1);
  const bool gathers = zero3_ && (op.pass == Pass::forward || costs_.gathers_twice);
  const Seconds blocked = incoming(stage, op.pass) * costs_.transfer_blocks;

  Id ahead = kNone;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const int index = segments.size() > 1 ? static_cast<int>(i) : -1;
    const Id gathered =
        gathers ? (ahead != kNone ? ahead : gather_segment(rank, stage, op, segments[i], index)) : kNone;
    ahead = kNone;
    const Id id = graph_.add({.kind = op.pass == Pass::forward ? TaskKind::forward : TaskKind::backward,
                              .stream = StreamKind::compute,
                              .device = static_cast<std::int16_t>(rank),
                              .stage = stage,
                              .microbatch = op.microbatch,
                              .index = index,
                              .pass = op.pass,
                              .duration = segments[i].compute + (i == 0 ? blocked : Seconds{}),
                              .flops = segments[i].flops});
    depend(id, gathered);
    if (waits) depend(id, state.first_gathers[static_cast<std::size_t>(op.chunk)][i]);
    if (zero3_ && !costs_.reduces_overlap) depend(id, state.reduce);
    if (i == 0) starts_[slot(stage, op.microbatch, op.pass)] = id;
    // The next gather is issued before this segment's reduction, so that it is not queued behind it.
    if (gathers && costs_.reduces_overlap && i + 1 < segments.size())
      ahead = gather_segment(rank, stage, op, segments[i + 1], index + 1);
    state.compute_before = state.compute;
    state.compute = id;
    if (reduces || (zero3_ && op.pass == Pass::backward))
      lower_reduction(rank, stage, op, segments[i], index);
  }

  Id& done = done_[slot(stage, op.microbatch, op.pass)];
  done = state.compute;
  const bool crosses = op.pass == Pass::forward ? stage + 1 < stages_ : stage > 0;
  if (crosses && !costs_.transfer.empty()) {
    const Seconds transfer =
        costs_.transfer[static_cast<std::size_t>(op.pass == Pass::forward ? stage : stage - 1)];
    done = graph_.add({.kind = TaskKind::send,
                       .stream = StreamKind::pp,
                       .device = static_cast<std::int16_t>(rank),
                       .stage = stage,
                       .microbatch = op.microbatch,
                       .pass = op.pass,
                       .duration = transfer * (1 - costs_.transfer_blocks),
                       .bytes = costs_.boundary});
    graph_.depend(done, state.compute);
  }
}

void Lowering::connect_stages() {
  for (int microbatch = 0; microbatch < schedule_.microbatches; ++microbatch)
    for (int stage = 0; stage < stages_; ++stage) {
      if (stage > 0)
        graph_.depend(starts_[slot(stage, microbatch, Pass::forward)],
                      done_[slot(stage - 1, microbatch, Pass::forward)]);
      graph_.depend(starts_[slot(stage, microbatch, Pass::backward)],
                    stage + 1 < stages_ ? done_[slot(stage + 1, microbatch, Pass::backward)]
                                        : done_[slot(stage, microbatch, Pass::forward)]);
    }
}

/// Remaining reductions, then the gradient norm, which needs every rank, then optimizer, gather and fixed
/// work.
void Lowering::lower_end_of_step() {
  const auto on = [](int rank, TaskKind kind, StreamKind stream, Seconds duration) {
    return Task{.kind = kind,
                .stream = stream,
                .device = static_cast<std::int16_t>(rank),
                .stage = rank,
                .duration = duration};
  };
  for (int rank = 0; rank < schedule_.ranks; ++rank) {
    const RankCosts& costs = costs_.ranks[static_cast<std::size_t>(rank)];
    if (costs_.reduces_overlap || zero3_ || costs.reduce.value() <= 0) continue;
    const double repeats = plan_.zero == ZeroStage::gradients ? schedule_.microbatches : 1;
    Task task = on(rank, TaskKind::reduce, StreamKind::dp, costs.reduce * repeats);
    task.pass = Pass::backward;
    task.bytes = Bytes{costs.parameters * costs_.gradient_bytes * repeats};
    at(rank).reduce = graph_.add(task);
    graph_.depend(at(rank).reduce, at(rank).compute);
  }
  const int last = schedule_.ranks - 1;
  if (costs_.tied_reduce.value() > 0) {
    Task task = on(0, TaskKind::reduce, StreamKind::pp, costs_.tied_reduce);
    task.pass = Pass::backward;
    const Id tied = graph_.add(task);
    for (const int rank : {0, last}) {
      depend(tied, at(rank).compute);
      depend(tied, at(rank).reduce);
    }
    at(0).reduce = tied;
  }
  const Id norm = graph_.add(on(0, TaskKind::norm, StreamKind::tp, costs_.gradient_norm));
  for (int rank = 0; rank < schedule_.ranks; ++rank) {
    depend(norm, at(rank).compute);
    depend(norm, at(rank).reduce);
  }
  std::vector<Id> ends;
  for (int rank = 0; rank < schedule_.ranks; ++rank) {
    const RankCosts& costs = costs_.ranks[static_cast<std::size_t>(rank)];
    Id end = graph_.add(on(rank, TaskKind::optimizer, StreamKind::compute, costs.optimizer));
    graph_.depend(end, norm);
    if (!costs_.gathers_overlap && costs.gather.value() > 0) {
      Task gather = on(rank, TaskKind::gather, StreamKind::dp, costs.gather);
      gather.bytes = Bytes{costs.parameters * element_bytes(plan_.precision)};
      const Id gathered = graph_.add(gather);
      graph_.depend(gathered, end);
      end = gathered;
    }
    ends.push_back(end);
  }
  const Id fixed = graph_.add(on(0, TaskKind::fixed, StreamKind::compute, costs_.fixed));
  for (const Id end : ends) graph_.depend(fixed, end);
}

}  // namespace

TaskGraph lower(const ParallelPlan& plan, const Schedule& schedule, const PlanCosts& costs) {
  return Lowering(plan, schedule, costs).run();
}

}  // namespace tpplan
