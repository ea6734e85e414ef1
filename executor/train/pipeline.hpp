#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "executor/train/transformer.hpp"
#include "simulator/plan/schedule.hpp"

namespace tpplan {

/// Activations, or their gradients, that come from a neighbour in the order of the schedule. Two are asked
/// for ahead of their use.
class Inbox {
 public:
  Inbox(RankContext& rank, Communicator& group, Pass pass, std::vector<ScheduledOp> order);
  void begin_step();
  [[nodiscard]] OwnedTensor take();

 private:
  void ask();

  RankContext& rank_;
  Communicator& group_;
  Pass pass_;
  std::vector<ScheduledOp> order_;  // of this rank's ops that wait for the neighbour
  std::unique_ptr<Lane> lane_;
  std::deque<std::pair<Lane::Ticket, OwnedTensor>> asked_;
  std::size_t next_ = 0;
};

/// What goes to a neighbour. Tensors live until they are sent.
class Outbox {
 public:
  Outbox(RankContext& rank, Communicator& group, Pass pass);
  void put(OwnedTensor tensor, int stage, int microbatch);
  void finish_step();

 private:
  RankContext& rank_;
  Communicator& group_;
  Pass pass_;
  std::unique_ptr<Lane> lane_;
  std::deque<std::pair<Lane::Ticket, OwnedTensor>> sent_;
};

/// Runs the schedule of one pipeline rank: its forwards and backwards in order, block by block, with the
/// gathers and reductions of the parameters between them.
class Pipeline {
 public:
  /// `schedule` must outlive it.
  Pipeline(RankContext& rank, ParameterStore& store, const Schedule& schedule);

  /// `tokens`: for each micro-batch of this data-parallel rank its inputs, then its targets, each
  /// (micro_batch * sequence), in the backend's memory. Returns the sum of the losses of this rank's tokens:
  /// on ranks that hold the head, else 0.
  [[nodiscard]] double run(const StepSettings& settings, const std::int32_t* tokens);

 private:
  struct InFlight {
    std::vector<LayerActivations> layers;
    HeadActivations head;
  };
  /// Splits an op into the segments that the engine times: spans change where a bucket or a gather begins.
  class Segments;

  [[nodiscard]] MicroBatch micro_batch(int microbatch, const std::int32_t* tokens) const;
  [[nodiscard]] bool reduces(const ScheduledOp& op) const;
  void forward(const ScheduledOp& op, const MicroBatch& micro);
  void backward(const ScheduledOp& op, const MicroBatch& micro);
  [[nodiscard]] OwnedTensor incoming(Pass pass, int stage, int microbatch);
  void outgoing(Pass pass, int stage, int microbatch, OwnedTensor tensor);
  [[nodiscard]] Task gather_task(const ScheduledOp& op, int stage, int index) const;

  RankContext& rank_;
  ParameterStore& store_;
  const Schedule& schedule_;
  Transformer transformer_;
  std::vector<ScheduledOp> ops_;
  std::optional<Inbox> forwards_in_, backwards_in_;
  std::optional<Outbox> forwards_out_, backwards_out_;
  std::map<std::pair<int, int>, InFlight> in_flight_;              // by chunk and micro-batch
  std::map<std::tuple<Pass, int, int>, OwnedTensor> handed_over_;  // between stages of this rank
  double loss_ = 0;
};

}  // namespace tpplan
