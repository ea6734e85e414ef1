#include "executor/train/parameter_store.hpp"

#include <algorithm>
#include <cassert>

#include "simulator/plan/buckets.hpp"

namespace tpplan {
namespace {

/// Runs clipped to [first, first + size) and moved to begin at 0; neighbours of the same kind are joined.
void add_clipped(std::vector<Run>& runs, Run run, std::int64_t first, std::int64_t size) {
  run.begin = std::max<std::int64_t>(run.begin - first, 0);
  run.end = std::min(run.end - first, size);
  if (run.begin >= run.end) return;
  if (!runs.empty() && runs.back().end == run.begin && runs.back().decay == run.decay)
    runs.back().end = run.end;
  else
    runs.push_back(run);
}

}  // namespace

Tensor Unit::master_share() const {
  if (master) return master.tensor;
  if (weight_share) return weight_share.tensor;
  return weights.tensor.slice(first, shard);
}

Tensor Unit::copy_share() const {
  if (!master) return {};
  return weight_share ? weight_share.tensor : weights.tensor.slice(first, shard);
}

Tensor Unit::gradient_share() const {
  return share_gradient ? share_gradient.tensor : gradient.tensor.slice(first, shard);
}

ParameterStore::ParameterStore(RankContext& rank, Lane* data_lane)
    : rank_(rank), lane_(data_lane), zero_(rank.data ? rank.plan.zero : ZeroStage::none) {
  build_blocks();
  build_units();
  for (Unit& unit : units_) {
    find_runs(unit);
    allocate(unit);
  }
}

bool ParameterStore::shards_gradients() const { return zero_ >= ZeroStage::gradients; }

void ParameterStore::build_blocks() {
  const ParallelPlan& plan = rank_.plan;
  const auto add = [&](BlockKind kind, int layer) {
    blocks_.push_back(parameters_of(rank_.model, plan, kind, layer, rank_.at.tp, plan.pp > 1));
  };
  for (int chunk = 0; chunk < plan.vpp; ++chunk) {
    const int stage = chunk * plan.pp + rank_.at.pp;
    const Stage& range = plan.stages[static_cast<std::size_t>(stage)];
    first_blocks_.push_back(static_cast<int>(blocks_.size()));
    stage_of_chunk_.push_back(stage);
    if (range.embedding) add(BlockKind::embedding, -1);
    for (int i = 0; i < range.layers; ++i) add(BlockKind::layer, range.first_layer + i);
    if (range.head) add(BlockKind::head, -1);
  }
  first_blocks_.push_back(static_cast<int>(blocks_.size()));
}

void ParameterStore::build_units() {
  const ParallelPlan& plan = rank_.plan;
  locations_.resize(blocks_.size());
  units_of_block_.resize(blocks_.size());
  const BlockParameters counts = block_parameters(rank_.model, plan.tp);
  const double of_rank = rank_parameters(plan, counts, rank_.at.pp);
  const int of_rank_buckets = rank_.data ? rank_buckets(plan.runtime, plan.bucket, of_rank) : 1;
  for (int chunk = 0; chunk < plan.vpp; ++chunk) {
    const int stage = stage_of_chunk_[static_cast<std::size_t>(chunk)];
    const Stage& range = plan.stages[static_cast<std::size_t>(stage)];
    const int first = first_block(chunk), blocks = stage_blocks(range);
    // Without a data-parallel group nothing is reduced: a unit for each block keeps transfers small.
    const int parts = rank_.data ? stage_buckets(plan, range, stage_parameters(range, counts, plan.pp > 1),
                                                 of_rank, of_rank_buckets)
                                 : blocks;
    chunk_buckets_.push_back(rank_.data ? parts : 1);
    std::vector<std::vector<std::pair<int, int>>> dealt(static_cast<std::size_t>(parts));
    std::vector<std::pair<int, int>> tied;
    std::vector<int> last_blocks(static_cast<std::size_t>(parts), first);
    int tied_bucket = 0;
    // In the order of the backward: the last block's gradients are complete first.
    for (int i = 0; i < blocks; ++i) {
      const int block = first + blocks - 1 - i;
      const int bucket = bucket_of_block(i, blocks, parts);
      last_blocks[static_cast<std::size_t>(bucket)] = block;
      const auto& parameters = blocks_[static_cast<std::size_t>(block)].parameters;
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        const bool copied = rank_.ends && (parameters[p].role == Role::token_embedding ||
                                           parameters[p].role == Role::head_weight);
        (copied ? tied : dealt[static_cast<std::size_t>(bucket)]).emplace_back(block, static_cast<int>(p));
        if (copied) tied_bucket = bucket;
      }
    }
    for (int bucket = 0; bucket < parts; ++bucket) {
      Bucket& added = buckets_.emplace_back();
      added.stage = stage;
      added.index = parts > 1 ? bucket : -1;
      added.last_block = last_blocks[static_cast<std::size_t>(bucket)];
      auto& parameters = dealt[static_cast<std::size_t>(bucket)];
      if (!parameters.empty()) {
        added.units.push_back(static_cast<int>(units_.size()));
        add_unit(std::move(parameters), false);
      }
      if (!tied.empty() && bucket == tied_bucket) {
        added.units.push_back(static_cast<int>(units_.size()));
        add_unit(std::move(tied), true);
      }
    }
  }
  // The head reads a tied embedding of its own rank.
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    Location& head = locations_[block][static_cast<std::size_t>(Role::head_weight)];
    if (blocks_[block].kind != BlockKind::head || head.parameter != nullptr) continue;
    head = locations_[0][static_cast<std::size_t>(Role::token_embedding)];
    units_of_block_[block].push_back(head.unit);
  }
}

void ParameterStore::add_unit(std::vector<std::pair<int, int>> parameters, bool tied_copy) {
  const int index = static_cast<int>(units_.size());
  Unit& unit = units_.emplace_back();
  unit.tied_copy = tied_copy;
  std::sort(parameters.begin(), parameters.end());
  for (const auto& [block, p] : parameters) {
    Parameter& parameter = blocks_[static_cast<std::size_t>(block)].parameters[static_cast<std::size_t>(p)];
    parameter.offset = unit.size;
    unit.size += (parameter.elements() + 15) / 16 * 16;  // every parameter begins on a line of 64 bytes
    fresh_.push_back(true);
    locations_[static_cast<std::size_t>(block)][static_cast<std::size_t>(parameter.role)] = {
        index, &parameter, &fresh_.back()};
    auto& units = units_of_block_[static_cast<std::size_t>(block)];
    if (std::find(units.begin(), units.end(), index) == units.end()) units.push_back(index);
  }
  const std::int64_t shards = rank_.data ? rank_.plan.dp : 1;
  unit.size = (unit.size + 16 * shards - 1) / (16 * shards) * 16 * shards;
  unit.shard = zero_ == ZeroStage::none ? unit.size : unit.size / shards;
  unit.first = zero_ == ZeroStage::none ? 0 : unit.shard * rank_.at.dp;
  unit.parameters = std::move(parameters);
}

const Parameter& ParameterStore::parameter(const Unit& unit, std::size_t index) const {
  const auto& [block, p] = unit.parameters[index];
  return blocks_[static_cast<std::size_t>(block)].parameters[static_cast<std::size_t>(p)];
}

void ParameterStore::find_runs(Unit& unit) {
  // Without ZeRO the data-parallel ranks hold the same sums: the first one counts them.
  const bool counts = zero_ != ZeroStage::none || rank_.at.dp == 0;
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const Parameter& p = parameter(unit, i);
    const std::int64_t end = p.offset + (p.elements() + 15) / 16 * 16;
    add_clipped(unit.decay_runs, {p.offset, end, p.decay}, unit.first, unit.shard);
    if (p.tensor_partial)
      add_clipped(unit.partial_runs, {p.offset, p.offset + p.elements(), false}, unit.first, unit.shard);
    for (const Part& part : p.parts)
      if (counts && part.counts)
        add_clipped(unit.counted_runs,
                    {p.offset + part.row * p.stride, p.offset + (part.row + part.rows) * p.stride, false},
                    unit.first, unit.shard);
  }
}

void ParameterStore::allocate(Unit& unit) {
  Arena& arena = rank_.arena;
  const DType type = dtype_of(rank_.plan.precision);
  const auto zeros = [&](DType format, std::int64_t count, MemoryCategory category) {
    OwnedTensor made = arena.matrix(format, 1, count, category);
    rank_.backend.fill(made.tensor, 0);
    return made;
  };
  if (zero_ == ZeroStage::weights)
    unit.weight_share = zeros(type, unit.shard, MemoryCategory::weights);
  else
    unit.weights = zeros(type, unit.size, MemoryCategory::weights);
  if (type != DType::f32) unit.master = zeros(DType::f32, unit.shard, MemoryCategory::optimizer_state);
  unit.first_moment = zeros(DType::f32, unit.shard, MemoryCategory::optimizer_state);
  unit.second_moment = zeros(DType::f32, unit.shard, MemoryCategory::optimizer_state);
  if (shards_gradients())
    unit.share_gradient = zeros(DType::f32, unit.shard, MemoryCategory::gradients);
  else
    unit.gradient = zeros(DType::f32, unit.size, MemoryCategory::gradients);
}

const ParameterStore::Location* ParameterStore::find(int block, Role role) const {
  const Location& found = locations_[static_cast<std::size_t>(block)][static_cast<std::size_t>(role)];
  return found.parameter != nullptr ? &found : nullptr;
}

Tensor ParameterStore::view(const Tensor& whole, const Parameter& p) const {
  const Tensor from = whole.slice(p.offset, p.elements());
  return p.cols == 1 ? from : matrix(from.data, from.type, p.rows, p.cols, p.stride);
}

Tensor ParameterStore::weight(int block, Role role) const {
  const Location* found = find(block, role);
  if (found == nullptr) return {};
  const Unit& unit = units_[static_cast<std::size_t>(found->unit)];
  assert(unit.weights && "weights are gathered before use");
  return view(unit.weights.tensor, *found->parameter);
}

GradientRef ParameterStore::gradient(int block, Role role) {
  const Location* found = find(block, role);
  if (found == nullptr) return {};
  Unit& unit = units_[static_cast<std::size_t>(found->unit)];
  if (!unit.gradient) {
    unit.gradient = rank_.arena.matrix(DType::f32, 1, unit.size, MemoryCategory::gather_buffers);
    rank_.backend.fill(unit.gradient.tensor, 0);
    *found->fresh = false;
  }
  const GradientRef ref{view(unit.gradient.tensor, *found->parameter), !shards_gradients() && *found->fresh};
  *found->fresh = false;
  return ref;
}

Tensor ParameterStore::added_gradient(int block, Role role) {
  const GradientRef ref = gradient(block, role);
  if (ref.fresh) rank_.backend.fill(ref.tensor, 0);
  return ref.tensor;
}

void ParameterStore::prefetch(int block, const Task& gather) {
  if (zero_ != ZeroStage::weights) return;
  for (const int index : units_of_block_[static_cast<std::size_t>(block)]) {
    Unit& unit = units_[static_cast<std::size_t>(index)];
    if (unit.weights) continue;
    unit.weights =
        rank_.arena.matrix(unit.weight_share.tensor.type, 1, unit.size, MemoryCategory::gather_buffers);
    const Tensor whole = unit.weights.tensor, share = unit.weight_share.tensor;
    unit.gathered = lane_->submit([this, whole, share, gather] {
      const auto span = rank_.recorder.span(gather, Bytes{static_cast<double>(whole.bytes())}, rank_.plan.dp);
      rank_.data->all_gather(whole, share);
    });
  }
}

void ParameterStore::require(int block) {
  if (zero_ != ZeroStage::weights) return;
  for (const int index : units_of_block_[static_cast<std::size_t>(block)])
    wait_for(units_[static_cast<std::size_t>(index)].gathered);
}

void ParameterStore::release(int block) {
  if (zero_ != ZeroStage::weights) return;
  for (const int index : units_of_block_[static_cast<std::size_t>(block)])
    units_[static_cast<std::size_t>(index)].weights.reset();
}

void ParameterStore::begin_step() {
  std::fill(fresh_.begin(), fresh_.end(), true);
  for (Unit& unit : units_) unit.share_is_fresh = true;
}

void ParameterStore::backward_done(int block, int microbatch, bool reduces) {
  if (!rank_.data || !reduces) return;
  for (const Bucket& bucket : buckets_)
    if (bucket.last_block == block) reduce(bucket, shards_gradients() ? microbatch : -1);
  reap(1);  // one is reduced while the next is filled: RuntimeOptions::double_buffered_reduction
}

/// Runs on the data lane. What it needs beside the unit is allocated here, on the rank's own thread.
void ParameterStore::reduce(const Bucket& bucket, int microbatch) {
  const Task task{.kind = TaskKind::reduce,
                  .stream = StreamKind::dp,
                  .stage = bucket.stage,
                  .microbatch = microbatch,
                  .index = bucket.index,
                  .pass = Pass::backward};
  std::int64_t bytes = 0;
  for (const int index : bucket.units) bytes += units_[static_cast<std::size_t>(index)].size * 4;
  struct Reduction {
    Tensor whole, share, part;
    bool adds = false;
  };
  std::vector<Reduction> reductions;
  std::vector<Pending> kept;
  for (const int index : bucket.units) {
    Unit& unit = units_[static_cast<std::size_t>(index)];
    Pending& pending = kept.emplace_back();
    Reduction& r = reductions.emplace_back();
    r.whole = unit.gradient.tensor;
    r.share = unit.gradient_share();
    r.part = r.share;
    if (!shards_gradients()) continue;
    r.adds = !unit.share_is_fresh;
    if (r.adds) {
      pending.part = rank_.arena.matrix(DType::f32, 1, unit.shard, MemoryCategory::gather_buffers);
      r.part = pending.part.tensor;
    }
    unit.share_is_fresh = false;
    pending.whole = std::move(unit.gradient);
    unit.gradient = {};
  }
  const Lane::Ticket ticket = lane_->submit([this, task, bytes, reductions] {
    const auto span = rank_.recorder.span(task, Bytes{static_cast<double>(bytes)}, rank_.plan.dp);
    for (const Reduction& r : reductions) {
      if (zero_ == ZeroStage::none) {
        rank_.data->all_reduce(r.whole);
        continue;
      }
      rank_.data->reduce_scatter(r.part, r.whole);
      if (r.adds) rank_.backend.add(r.share, r.part);
    }
  });
  for (Pending& pending : kept) {
    pending.ticket = ticket;
    pending_.push_back(std::move(pending));
  }
}

void ParameterStore::wait_for(Lane::Ticket ticket) {
  const Seconds start = rank_.recorder.now();
  lane_->wait(ticket);
  rank_.recorder.add_data_wait(rank_.recorder.now() - start);
}

void ParameterStore::reap(std::size_t leave) {
  while (!pending_.empty() && (pending_.size() > leave || lane_->done(pending_.front().ticket))) {
    wait_for(pending_.front().ticket);
    pending_.pop_front();
  }
}

void ParameterStore::finish_gradients() {
  reap(0);
  if (rank_.ends)
    for (const Unit& unit : units_) {
      if (!unit.tied_copy) continue;
      const Task task{.kind = TaskKind::reduce, .stream = StreamKind::pp, .pass = Pass::backward};
      const Tensor share = unit.gradient_share();
      const auto span = rank_.recorder.span(task, Bytes{static_cast<double>(share.bytes())}, 2);
      rank_.ends->all_reduce(share);
    }
  if (rank_.tensor) sum_partial_gradients();
}

void ParameterStore::sum_partial_gradients() {
  std::int64_t total = 0;
  for (const Unit& unit : units_)
    for (const Run& run : unit.partial_runs) total += run.end - run.begin;
  if (total == 0) return;
  const OwnedTensor staged = rank_.arena.matrix(DType::f32, 1, total, MemoryCategory::workspace);
  const auto each = [&](auto move) {
    std::int64_t at = 0;
    for (const Unit& unit : units_)
      for (const Run& run : unit.partial_runs) {
        const std::int64_t count = run.end - run.begin;
        move(staged.tensor.slice(at, count), unit.gradient_share().slice(run.begin, count));
        at += count;
      }
  };
  each([&](Tensor stage, Tensor gradient) { rank_.backend.copy(stage, gradient); });
  tensor_all_reduce(rank_, staged.tensor);
  each([&](Tensor stage, Tensor gradient) { rank_.backend.copy(gradient, stage); });
}

void ParameterStore::gather_weights() {
  if (zero_ != ZeroStage::optimizer && zero_ != ZeroStage::gradients) return;
  const Task task{.kind = TaskKind::gather, .stream = StreamKind::dp, .stage = rank_.at.pp};
  std::int64_t bytes = 0;
  for (const Unit& unit : units_) bytes += unit.weights.tensor.bytes();
  rank_.backend.synchronise();
  const auto span = rank_.recorder.span(task, Bytes{static_cast<double>(bytes)}, rank_.plan.dp);
  const Seconds start = rank_.recorder.now();
  for (const Unit& unit : units_)
    rank_.data->all_gather(unit.weights.tensor, unit.weights.tensor.slice(unit.first, unit.shard));
  rank_.recorder.add_data_wait(rank_.recorder.now() - start);
}

}  // namespace tpplan
