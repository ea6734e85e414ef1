#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "executor/train/context.hpp"
#include "executor/train/parameters.hpp"
#include "simulator/plan/training_options.hpp"

namespace tpplan {

/// A run of elements [begin, end) of this rank's share of a unit.
struct Run {
  std::int64_t begin = 0, end = 0;
  bool decay = false;
};

/// Parameters that are gathered, reduced and sharded together: a gradient bucket, or under ZeRO 3 a block. A
/// tied embedding with a copy on another stage is a unit of its own, so that both copies are sharded alike.
struct Unit {
  std::vector<std::pair<int, int>> parameters;  // (block, index in the block)
  std::int64_t size = 0;                        // elements, a multiple of the data-parallel ranks
  std::int64_t shard = 0;                       // elements of this rank's share
  std::int64_t first = 0;                       // where the share begins
  std::vector<Run> decay_runs;                  // of the share: by weight decay
  std::vector<Run> counted_runs;                // of the share: what this rank adds to the gradient norm
  std::vector<Run> partial_runs;                // of the share: to be summed over the tensor ranks
  bool tied_copy = false;                       // to be summed over the ends of the pipeline

  OwnedTensor weights;         // (size) as products read them; under ZeRO 3 only while gathered
  OwnedTensor weight_share;    // (shard) the same, under ZeRO 3
  OwnedTensor gradient;        // f32 (size); under ZeRO 2 and 3 only from its first use to its reduction
  OwnedTensor share_gradient;  // f32 (shard) under ZeRO 2 and 3
  OwnedTensor master, first_moment, second_moment;  // f32 (shard); no master where weights are f32
  Lane::Ticket gathered = 0;                        // of a gather under way or done; 0: none
  bool share_is_fresh = true;                       // share_gradient holds nothing of this step yet

  /// This rank's part of the weights that the optimizer updates, f32.
  [[nodiscard]] Tensor master_share() const;
  /// Its copy for the products; no data where they are the same.
  [[nodiscard]] Tensor copy_share() const;
  [[nodiscard]] Tensor gradient_share() const;
};

/// Units whose gradients are reduced by one task. `last_block`: after whose backward.
struct Bucket {
  int stage = 0, index = -1;
  std::vector<int> units;
  int last_block = 0;
};

struct GradientRef {
  Tensor tensor;       // f32
  bool fresh = false;  // holds nothing yet: write it, or fill it with zeros before adding
};

/// The parameters of one rank, their gradients and optimizer state, sharded as the plan's ZeRO stage says.
/// Blocks are numbered over the stages of the rank, each in model order.
class ParameterStore {
 public:
  ParameterStore(RankContext& rank, Lane* data_lane);

  [[nodiscard]] const std::vector<BlockParameterList>& blocks() const { return blocks_; }
  /// The first block of a model chunk of this rank.
  [[nodiscard]] int first_block(int chunk) const { return first_blocks_[static_cast<std::size_t>(chunk)]; }
  /// Gradient buckets of a model chunk, which its blocks are cut into; 1 without a data-parallel group.
  [[nodiscard]] int buckets(int chunk) const { return chunk_buckets_[static_cast<std::size_t>(chunk)]; }
  [[nodiscard]] const std::vector<Unit>& units() const { return units_; }
  [[nodiscard]] const Parameter& parameter(const Unit& unit, std::size_t index) const;

  /// Whether the model has it (a bias, a norm of queries).
  [[nodiscard]] bool has(int block, Role role) const { return find(block, role) != nullptr; }
  /// No data when absent.
  [[nodiscard]] Tensor weight(int block, Role role) const;
  [[nodiscard]] GradientRef gradient(int block, Role role);
  /// The gradient ready to be added to; no data when absent.
  [[nodiscard]] Tensor added_gradient(int block, Role role);

  /// ZeRO 3: starts gathering a block's weights, waits for them, and lets them go. Nothing otherwise.
  void prefetch(int block, const Task& gather);
  void require(int block);
  void release(int block);

  void begin_step();
  /// Called after the backward of a block. `reduces`: this micro-batch's gradients are to be reduced.
  void backward_done(int block, int microbatch, bool reduces);
  /// Waits for all reductions; sums tied copies and tensor-partial gradients.
  void finish_gradients();
  /// Squares of the gradients that this rank counts.
  [[nodiscard]] double squared_norm();
  void optimizer_step(OptimizerKind kind, const AdamW& step);
  /// Name of the first tensor of this rank's share whose gradient or weight is not finite; empty: none.
  [[nodiscard]] std::string first_not_finite();
  /// ZeRO 1 and 2: gathers the updated weights.
  void gather_weights();

  /// Sets weights from a function that gives a part in fp32: rows x cols of the part, as [out][in].
  using PartReader = std::function<void(const Parameter&, const Part&, float* to, std::int64_t stride)>;
  void load(const PartReader& read);
  /// State of the optimizer the same way; `which` 0: first moment, 1: second.
  void load_moment(int which, const PartReader& read);

  enum class Field : std::uint8_t { weight, gradient, first_moment, second_moment };
  /// Calls `write` with the pieces of rows of published tensors that this rank is the one to save.
  using PieceWriter =
      std::function<void(const Part&, std::int64_t row, std::int64_t col, std::span<const float>)>;
  void visit_own(Field field, const PieceWriter& write);

 private:
  struct Pending {
    Lane::Ticket ticket = 0;
    OwnedTensor whole, part;
  };
  struct Location {
    int unit = -1;
    const Parameter* parameter = nullptr;
    bool* fresh = nullptr;
  };

  void build_blocks();
  void build_units();
  void add_unit(std::vector<std::pair<int, int>> parameters, bool tied_copy);
  void find_runs(Unit& unit);
  void allocate(Unit& unit);
  [[nodiscard]] const Location* find(int block, Role role) const;
  [[nodiscard]] Tensor view(const Tensor& whole, const Parameter& p) const;
  void fill_share(Unit& unit, Tensor share, Tensor copy, const PartReader& read);
  void reduce(const Bucket& bucket, int microbatch);
  void wait_for(Lane::Ticket ticket);
  void reap(std::size_t leave);
  void sum_partial_gradients();
  [[nodiscard]] bool shards_gradients() const;

  RankContext& rank_;
  Lane* lane_;
  ZeroStage zero_;
  std::vector<BlockParameterList> blocks_;
  std::vector<int> first_blocks_, stage_of_chunk_, chunk_buckets_;
  std::vector<Unit> units_;
  std::vector<Bucket> buckets_;
  std::vector<std::array<Location, kRoles>> locations_;  // [block][role]
  std::vector<std::vector<int>> units_of_block_;
  std::deque<bool> fresh_;
  std::deque<Pending> pending_;
};

}  // namespace tpplan
