#pragma once

#include <memory>

#include "executor/backend/arena.hpp"
#include "executor/backend/backend.hpp"
#include "executor/backend/communicator.hpp"
#include "executor/train/recorder.hpp"
#include "simulator/plan/ranks.hpp"

namespace tpplan {

/// What one rank works with. Communicators of groups of one rank are null.
struct RankContext {
  const ModelSpec& model;
  const ParallelPlan& plan;
  Backend& backend;
  Arena& arena;
  Recorder& recorder;
  Communicator& world;

  RankPosition at;
  std::unique_ptr<Communicator> tensor, data, kv_copies, ends;
  // Of the pipeline group, one for each direction of travel, so that each has its own thread.
  std::unique_ptr<Communicator> forward, backward;

  /// Creates the communicators eagerly, in one order on all ranks: tensor, data, key copies, ends, pipeline.
  RankContext(const ModelSpec& spec, const ParallelPlan& layout, Backend& device, Arena& memory,
              Recorder& records, Communicator& everyone);

  /// Whether norms, dropout and residuals hold only this rank's share of the rows.
  [[nodiscard]] bool splits_rows() const { return plan.sequence_parallel && plan.tp > 1; }
};

/// Sum over the tensor-parallel group, timed as communication inside the task.
void tensor_all_reduce(RankContext& rank, Tensor x);
void tensor_reduce_scatter(RankContext& rank, Tensor out, Tensor in);
void tensor_all_gather(RankContext& rank, Tensor out, Tensor in);

}  // namespace tpplan
