#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/model/model_spec.hpp"
#include "simulator/plan/parallel_plan.hpp"
#include "simulator/plan/schedule.hpp"
#include "simulator/topology/topology.hpp"

namespace tpplan {

/// Lines of the memory account; docs/cost-model.md has the formula of each.
enum class MemoryCategory {
  weights,
  gradients,
  optimizer_state,
  activations,     // of the micro-batches in flight
  recompute,       // what a layer's recomputation holds at once
  logits,          // head and loss
  gather_buffers,  // ZeRO-3 gathers, tensor-parallel gathers, buckets
  pipeline_buffers,
  context,         // CUDA context, NCCL buffers, library workspaces
  fragmentation,
};
inline constexpr std::array<std::string_view, 10> kMemoryCategoryNames{
    "weights",        "gradients",        "optimizer state", "activations",  "recompute",
    "logits",         "gather buffers",   "pipeline buffers", "CUDA and NCCL", "fragmentation"};

struct StageMemory {
  std::array<Bytes, kMemoryCategoryNames.size()> bytes{};  // at the peak instant
  std::string instant;                                     // "after s0.mb3.fwd"
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

}  // namespace tpplan
