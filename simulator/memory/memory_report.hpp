#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "simulator/plan/problem.hpp"
#include "simulator/plan/schedule.hpp"
#include "simulator/plan/shares.hpp"

namespace tpplan {

/// Lines of the memory account; docs/cost-model.md has the formula of each.
enum class MemoryCategory {
  weights,
  gradients,
  optimizer_state,
  activations,     // of the micro-batches in flight
  recompute,       // what a layer's recomputation holds at once
  workspace,       // gradients of one layer's activations while its backward runs
  logits,          // head and loss
  gather_buffers,  // ZeRO-3 gathers, tensor-parallel gathers, buckets
  pipeline_buffers,
  context,  // CUDA context, NCCL buffers, library workspaces
  fragmentation,
};
inline constexpr std::array<std::string_view, 11> kMemoryCategoryNames{
    "weights", "gradients",      "optimizer state",  "activations",   "recompute",    "workspace",
    "logits",  "gather buffers", "pipeline buffers", "CUDA and NCCL", "fragmentation"};

struct StageMemory {
  std::array<Bytes, kMemoryCategoryNames.size()> bytes{};  // at the peak instant
  bool at_loss = false;  // peak instant: at the loss, or else in the first backward
  [[nodiscard]] Bytes& of(MemoryCategory c) { return bytes[static_cast<std::size_t>(c)]; }
  [[nodiscard]] Bytes of(MemoryCategory c) const { return bytes[static_cast<std::size_t>(c)]; }
  /// What the framework's allocator hands out: everything but context and fragmentation.
  [[nodiscard]] Bytes allocated() const;
  [[nodiscard]] Bytes total() const;
};

struct MemoryReport {
  std::vector<StageMemory> ranks;  // one per pipeline rank
  [[nodiscard]] std::size_t worst() const;
  [[nodiscard]] Bytes peak() const { return ranks[worst()].total(); }
};

/// Activation bytes of one micro-batch on one tensor rank. Depends on (tp, sequence parallel, micro-batch,
/// recompute) and the problem; callers keep it by key.
struct LayerMemory {
  Bytes saved;      // kept per layer from its forward to its backward
  Bytes recompute;  // per layer, alive only while it is recomputed
  Bytes workspace;  // of the layer's backward
  Bytes embedding;  // kept by the first stage
  Bytes head;       // kept by the head between forward and backward: final norm, logits, loss
  Bytes boundary;   // of a pipeline transfer
};
[[nodiscard]] LayerMemory layer_memory(const Problem& problem, int tp, bool sequence_parallel,
                                       int micro_batch, Recompute recompute);

/// Layers whose activations rank `rank` holds at its peak, summed over the micro-batches in flight: the
/// closed form of replaying the schedule (peak_in_flight), weighted by the layers of each chunk.
[[nodiscard]] double layers_in_flight(const ParallelPlan& plan, int rank);

/// The account of every pipeline rank at its peak instant.
[[nodiscard]] MemoryReport memory_report(const Problem& problem, const ParallelPlan& plan,
                                         const BlockParameters& blocks, const LayerMemory& layer);

}  // namespace tpplan
