#include "executor/train/pipeline.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>

#include "simulator/plan/buckets.hpp"

namespace tpplan {
namespace {

constexpr std::size_t kAhead = 2;

int previous(const Communicator& group) { return (group.rank() + group.size() - 1) % group.size(); }
int next(const Communicator& group) { return (group.rank() + 1) % group.size(); }

/// Of the message that `stage` waits for: ranks that disagree about the order wait for each other and are
/// found, instead of taking one micro-batch for another. MPI promises tags up to 32767.
int tag_of(const ParallelPlan& plan, Pass pass, int stage, int microbatch) {
  constexpr int kTags = 16'000;
  return 2 * ((microbatch * static_cast<int>(plan.stages.size()) + stage) % kTags) + static_cast<int>(pass);
}

}  // namespace

Inbox::Inbox(RankContext& rank, Communicator& group, Pass pass, std::vector<ScheduledOp> order)
    : rank_(rank),
      group_(group),
      pass_(pass),
      order_(std::move(order)),
      lane_(rank.backend.make_lane("receive")) {}

void Inbox::begin_step() {
  next_ = 0;
  while (next_ < order_.size() && asked_.size() < kAhead) ask();
}

void Inbox::ask() {
  const std::int64_t rows = static_cast<std::int64_t>(rank_.plan.micro_batch) * rank_.plan.sequence /
                            (rank_.splits_rows() ? rank_.plan.tp : 1);
  OwnedTensor tensor = rank_.arena.matrix(dtype_of(rank_.plan.precision), rows, rank_.model.hidden,
                                          MemoryCategory::pipeline_buffers);
  const ScheduledOp op = order_[next_++];
  const int stage = op.chunk * rank_.plan.pp + rank_.at.pp;
  const int from = pass_ == Pass::forward ? previous(group_) : next(group_);
  const Lane::Ticket ticket = lane_->submit([this, to = tensor.tensor, op, stage, from] {
    const TaskLabel waiting(
        label(Task{.kind = op.pass == Pass::forward ? TaskKind::forward : TaskKind::backward,
                   .stage = stage,
                   .microbatch = op.microbatch,
                   .pass = op.pass}));
    group_.receive(to, from, tag_of(rank_.plan, pass_, stage, op.microbatch));
  });
  asked_.emplace_back(ticket, std::move(tensor));
}

OwnedTensor Inbox::take() {
  const Seconds start = rank_.recorder.now();
  lane_->wait(asked_.front().first);
  rank_.recorder.add_pipeline_wait(rank_.recorder.now() - start);
  OwnedTensor tensor = std::move(asked_.front().second);
  asked_.pop_front();
  if (next_ < order_.size()) ask();
  return tensor;
}

Outbox::Outbox(RankContext& rank, Communicator& group, Pass pass)
    : rank_(rank), group_(group), pass_(pass), lane_(rank.backend.make_lane("send")) {}

void Outbox::put(OwnedTensor tensor, int stage, int microbatch) {
  const Task task{.kind = TaskKind::send,
                  .stream = StreamKind::pp,
                  .stage = stage,
                  .microbatch = microbatch,
                  .pass = pass_};
  const int to = pass_ == Pass::forward ? next(group_) : previous(group_);
  const Lane::Ticket ticket = lane_->submit([this, from = tensor.tensor, task, to] {
    const auto span = rank_.recorder.span(task, Bytes{static_cast<double>(from.bytes())}, 2);
    group_.send(from, to,
                tag_of(rank_.plan, pass_, task.stage + (pass_ == Pass::forward ? 1 : -1), task.microbatch));
  });
  sent_.emplace_back(ticket, std::move(tensor));
  while (!sent_.empty() && lane_->done(sent_.front().first)) sent_.pop_front();
}

void Outbox::finish_step() {
  const Seconds start = rank_.recorder.now();
  if (!sent_.empty()) lane_->wait(sent_.back().first);
  rank_.recorder.add_pipeline_wait(rank_.recorder.now() - start);
  sent_.clear();
}

/// The running span of one op, and which segment a block belongs to.
class Pipeline::Segments {
 public:
  Segments(RankContext& rank, const ScheduledOp& op, int stage, int blocks, int parts)
      : rank_(rank), op_(op), stage_(stage), blocks_(blocks), parts_(parts) {}
  /// Index of the `i`-th block's segment in labels; -1 where there is only one.
  [[nodiscard]] int index(int i) const { return parts_ > 1 ? bucket_of_block(i, blocks_, parts_) : -1; }
  void enter(int i) {
    if (span_ && index(i) == current_) return;
    span_.reset();
    current_ = index(i);
    span_.emplace(rank_.recorder,
                  Task{.kind = op_.pass == Pass::forward ? TaskKind::forward : TaskKind::backward,
                       .stage = stage_,
                       .microbatch = op_.microbatch,
                       .index = current_,
                       .pass = op_.pass},
                  Bytes{}, 1);
  }

 private:
  RankContext& rank_;
  const ScheduledOp& op_;
  int stage_, blocks_, parts_, current_ = -1;
  std::optional<Recorder::Span> span_;
};

Pipeline::Pipeline(RankContext& rank, ParameterStore& store, const Schedule& schedule)
    : rank_(rank),
      store_(store),
      schedule_(schedule),
      transformer_(rank, store),
      ops_(schedule.ops[static_cast<std::size_t>(rank.at.pp)]) {
  if (rank.plan.pp == 1) return;
  std::vector<ScheduledOp> in_forward, in_backward;
  const int stages = static_cast<int>(rank.plan.stages.size());
  for (const ScheduledOp& op : ops_) {
    const int stage = op.chunk * rank.plan.pp + rank.at.pp;
    if (op.pass == Pass::forward && stage > 0) in_forward.push_back(op);
    if (op.pass == Pass::backward && stage + 1 < stages) in_backward.push_back(op);
  }
  forwards_in_.emplace(rank, *rank.forward, Pass::forward, std::move(in_forward));
  backwards_in_.emplace(rank, *rank.backward, Pass::backward, std::move(in_backward));
  forwards_out_.emplace(rank, *rank.forward, Pass::forward);
  backwards_out_.emplace(rank, *rank.backward, Pass::backward);
}

MicroBatch Pipeline::micro_batch(int microbatch, const std::int32_t* tokens) const {
  const ParallelPlan& plan = rank_.plan;
  const std::int64_t rows = static_cast<std::int64_t>(plan.micro_batch) * plan.sequence;
  const std::int32_t* inputs = tokens + 2 * rows * microbatch;
  return {plan.micro_batch,
          (static_cast<std::int64_t>(microbatch) * plan.dp + rank_.at.dp) * plan.micro_batch, inputs,
          inputs + rows};
}

bool Pipeline::reduces(const ScheduledOp& op) const {
  if (rank_.plan.zero >= ZeroStage::gradients) return true;
  return op.microbatch == (schedule_.kind == ScheduleKind::gpipe ? 0 : schedule_.microbatches - 1);
}

double Pipeline::run(const StepSettings& settings, const std::int32_t* tokens) {
  transformer_.begin_step(settings);
  loss_ = 0;
  if (forwards_in_) {
    forwards_in_->begin_step();
    backwards_in_->begin_step();
  }
  for (const ScheduledOp& op : ops_) {
    const MicroBatch micro = micro_batch(op.microbatch, tokens);
    if (op.pass == Pass::forward)
      forward(op, micro);
    else
      backward(op, micro);
  }
  if (forwards_out_) {
    forwards_out_->finish_step();
    backwards_out_->finish_step();
  }
  return loss_;
}

Task Pipeline::gather_task(const ScheduledOp& op, int stage, int index) const {
  return {.kind = TaskKind::gather,
          .stream = StreamKind::dp,
          .stage = stage,
          .microbatch = op.microbatch,
          .index = index,
          .pass = op.pass};
}

OwnedTensor Pipeline::incoming(Pass pass, int stage, int microbatch) {
  if (rank_.plan.pp > 1) return (pass == Pass::forward ? forwards_in_ : backwards_in_)->take();
  const auto found = handed_over_.find({pass, stage, microbatch});
  OwnedTensor tensor = std::move(found->second);
  handed_over_.erase(found);
  return tensor;
}

void Pipeline::outgoing(Pass pass, int stage, int microbatch, OwnedTensor tensor) {
  if (rank_.plan.pp > 1)
    (pass == Pass::forward ? forwards_out_ : backwards_out_)->put(std::move(tensor), stage, microbatch);
  else
    handed_over_[{pass, pass == Pass::forward ? stage + 1 : stage - 1, microbatch}] = std::move(tensor);
}

void Pipeline::forward(const ScheduledOp& op, const MicroBatch& micro) {
  const int stage = op.chunk * rank_.plan.pp + rank_.at.pp;
  const Stage& range = rank_.plan.stages[static_cast<std::size_t>(stage)];
  const int first = store_.first_block(op.chunk), blocks = stage_blocks(range);
  InFlight& kept = in_flight_[{op.chunk, op.microbatch}];
  kept.layers.resize(static_cast<std::size_t>(range.layers));
  OwnedTensor x;
  if (!range.embedding) x = incoming(Pass::forward, stage, op.microbatch);
  const bool cut = rank_.plan.zero == ZeroStage::weights;
  Segments segments(rank_, op, stage, blocks, cut ? store_.buckets(op.chunk) : 1);
  if (blocks > 0) store_.prefetch(first, gather_task(op, stage, segments.index(0)));
  for (int i = 0; i < blocks; ++i) {
    const int block = first + i;
    store_.require(block);
    segments.enter(i);
    if (i + 1 < blocks) store_.prefetch(block + 1, gather_task(op, stage, segments.index(i + 1)));
    switch (store_.blocks()[static_cast<std::size_t>(block)].kind) {
      case BlockKind::embedding:
        x = transformer_.embed(block, micro);
        break;
      case BlockKind::layer:
        x = transformer_.layer(block, micro, std::move(x),
                               kept.layers[static_cast<std::size_t>(i - (range.embedding ? 1 : 0))]);
        break;
      case BlockKind::head:
        loss_ += transformer_.head(block, micro, std::move(x), kept.head);
        break;
    }
    if (rank_.plan.runtime.reshard_after_forward) store_.release(block);
  }
  if (!range.head) outgoing(Pass::forward, stage, op.microbatch, std::move(x));
}

void Pipeline::backward(const ScheduledOp& op, const MicroBatch& micro) {
  const int stage = op.chunk * rank_.plan.pp + rank_.at.pp;
  const Stage& range = rank_.plan.stages[static_cast<std::size_t>(stage)];
  const int first = store_.first_block(op.chunk), blocks = stage_blocks(range);
  const auto found = in_flight_.find({op.chunk, op.microbatch});
  if (found == in_flight_.end())
    throw std::logic_error(
        fmt::format("stage {}: the backward of micro-batch {} is before its forward", stage, op.microbatch));
  InFlight& kept = found->second;
  OwnedTensor gradient;
  if (!range.head) gradient = incoming(Pass::backward, stage, op.microbatch);
  const bool cut = reduces(op) || rank_.plan.zero == ZeroStage::weights;
  Segments segments(rank_, op, stage, blocks, cut ? store_.buckets(op.chunk) : 1);
  if (blocks > 0) store_.prefetch(first + blocks - 1, gather_task(op, stage, segments.index(0)));
  for (int i = 0; i < blocks; ++i) {
    const int block = first + blocks - 1 - i;
    store_.require(block);
    segments.enter(i);
    if (i + 1 < blocks) store_.prefetch(block - 1, gather_task(op, stage, segments.index(i + 1)));
    switch (store_.blocks()[static_cast<std::size_t>(block)].kind) {
      case BlockKind::embedding:
        transformer_.embed_backward(block, micro, std::move(gradient));
        break;
      case BlockKind::layer:
        gradient = transformer_.layer_backward(
            block, micro, std::move(gradient),
            kept.layers[static_cast<std::size_t>(block - first - (range.embedding ? 1 : 0))]);
        break;
      case BlockKind::head:
        gradient = transformer_.head_backward(block, micro, kept.head);
        break;
    }
    store_.release(block);
    store_.backward_done(block, op.microbatch, reduces(op));
  }
  in_flight_.erase(found);
  if (!range.embedding) outgoing(Pass::backward, stage, op.microbatch, std::move(gradient));
}

}  // namespace tpplan
