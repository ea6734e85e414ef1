#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/plan/runtime_options.hpp"
#include "simulator/units/precision.hpp"
#include "simulator/units/units.hpp"

namespace tpplan {

enum class ZeroStage : std::uint8_t { none, optimizer, gradients, weights };  // 0, 1, 2, 3
enum class Recompute : std::uint8_t { none, selective, full };
enum class ScheduleKind : std::uint8_t { gpipe, one_f_one_b, interleaved };
/// Which axis lies next to tensor parallelism in the global rank order; the other one strides over it.
enum class AxisOrder : std::uint8_t { tp_cp_dp_pp, tp_cp_pp_dp };

inline constexpr std::array<std::string_view, 3> kRecomputeNames{"none", "selective", "full"};
inline constexpr std::array<std::string_view, 3> kScheduleNames{"gpipe", "1f1b", "interleaved"};
inline constexpr std::array<std::string_view, 2> kAxisOrderNames{"tp-cp-dp-pp", "tp-cp-pp-dp"};

/// A contiguous range of layers, plus the embedding before the first or the head and loss after the last.
/// With interleaving a pipeline rank holds several: stage i lives on pipeline rank i % pp.
struct Stage {
  int first_layer = 0;
  int layers = 0;
  bool embedding = false;
  bool head = false;
  bool operator==(const Stage&) const = default;
};

/// One way to train a model on a cluster. world = tp * cp * dp * pp; ep lies inside dp.
struct ParallelPlan {
  int tp = 1;
  int cp = 1;
  int dp = 1;
  int pp = 1;
  int ep = 1;
  int vpp = 1;  // model chunks of a pipeline rank
  bool sequence_parallel = false;
  ZeroStage zero = ZeroStage::none;
  int micro_batch = 1;            // samples
  std::int64_t global_batch = 1;  // samples of an optimizer step
  int sequence = 0;               // tokens of a sample
  Recompute recompute = Recompute::none;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  Precision precision = Precision::bf16;
  Bytes bucket = mebibytes(100);  // of gradients reduced together
  AxisOrder order = AxisOrder::tp_cp_dp_pp;
  std::vector<Stage> stages;  // pp * vpp, in model order
  RuntimeOptions runtime;

  bool operator==(const ParallelPlan&) const = default;

  [[nodiscard]] int world() const { return tp * cp * dp * pp; }
  [[nodiscard]] std::int64_t microbatches() const {
    return global_batch / (static_cast<std::int64_t>(micro_batch) * dp);
  }
  [[nodiscard]] int dp_stride() const { return order == AxisOrder::tp_cp_dp_pp ? tp * cp : tp * cp * pp; }
  [[nodiscard]] int pp_stride() const { return order == AxisOrder::tp_cp_dp_pp ? tp * cp * dp : tp * cp; }
};

/// The most even split of `layers` over pp * vpp stages, earlier stages taking the remainder last (the first
/// and the last hold embedding and head, so the middle takes the extra layers first).
[[nodiscard]] std::vector<Stage> even_stages(int layers, int pp, int vpp);

/// Why a plan is illegal. The code is stable: it is counted, printed and tested.
enum class Rule : std::uint8_t {
  world_size,           // tp cp dp pp != GPUs
  heads,                // tp does not divide the heads
  kv_heads,             // tp neither divides nor is a multiple of the KV heads
  hidden,               // tp does not divide the MLP width
  sequence_split,       // tp (with sequence parallelism) does not divide the sequence
  sequence_needs_tp,    // sequence parallelism without tensor parallelism
  layers,               // fewer layers than stages
  stages_cover,         // stages do not hold every layer once, in order, embedding first and head last
  batch,                // micro_batch * dp does not divide the global batch
  interleaving,         // vpp > 1 without the interleaved schedule, or the reverse
  microbatch_multiple,  // interleaved schedule needs microbatches to be a multiple of pp
  zero_needs_dp,        // ZeRO over one data-parallel rank
  positions,            // sequence longer than the position table
  island,               // tp spans more than the NVLink domain and was not asked to
  precision,            // the device has no unit for it, or it is not modelled yet
  experts,              // mixture of experts is not modelled yet
  context_parallel,     // context and expert parallelism are not modelled yet
  memory,               // does not fit
};
inline constexpr std::array<std::string_view, 18> kRuleNames{
    "world_size", "heads",        "kv_heads",  "hidden",       "sequence_split",      "sequence_needs_tp",
    "layers",     "stages_cover", "batch",     "interleaving", "microbatch_multiple", "zero_needs_dp",
    "positions",  "island",       "precision", "experts",      "context_parallel",    "memory"};

struct Violation {
  Rule rule = Rule::world_size;
  std::string message;  // with the numbers
  std::string remedy;   // the nearest legal values
};

}  // namespace tpplan
