#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "simulator/topology/topology.hpp"
#include "simulator/units/precision.hpp"

namespace tpplan {

enum class Fusion { eager, jit, compiled };  // how element-wise kernels are merged
enum class TpOverlap {
  none,          // every tensor-parallel collective waits (Megatron-LM of 2021)
  wgrad,         // the backward collective hides behind the weight-gradient product (Megatron-LM since 2022)
  async,         // decomposed products (torchtitan's async TP)
  user_buffers,  // Transformer Engine's user-buffer overlap
};
enum class DpOverlap { none, backward };
inline constexpr std::array<std::string_view, 3> kFusionNames{"eager", "jit", "compiled"};
inline constexpr std::array<std::string_view, 4> kTpOverlapNames{"none", "wgrad", "async", "user_buffers"};
inline constexpr std::array<std::string_view, 2> kDpOverlapNames{"none", "backward"};

/// What the training software does, apart from the layout: kernels, fusion, overlap, formats of gradients and
/// state. Defaults describe a present-day Megatron-class trainer; named profiles give the documented defaults
/// of others.
struct RuntimeOptions {
  std::string framework = "megatron-core";
  AttentionKernel attention = AttentionKernel::flash2;
  bool fused_norm = true;
  Fusion fusion = Fusion::jit;
  bool fused_cross_entropy = true;
  bool dropout = false;  // masks are kept for the backward
  bool parallel_cross_entropy =
      true;  // false: logits are gathered over tensor ranks and the loss is computed on all
  TpOverlap tp_overlap = TpOverlap::wgrad;
  DpOverlap dp_overlap = DpOverlap::backward;
  bool gather_overlaps = false;    // ZeRO-1/2: parameters are gathered during the next step's first forward
  bool gradient_bucketing = true;  // false: one reduction per tensor group after the last backward
  double zero3_bandwidth_share =
      1;                   // of the fabric, that parameter gathers reach (DeepSpeed of 2021: a quarter)
  int zero3_messages = 1;  // collectives in which the parameters of one layer are gathered
  bool reshard_after_forward = true;  // ZeRO-3: gather again in the backward
  bool cuda_graphs = false;           // the host launches whole graphs: never the limit
  int kernels_per_layer = 40;         // launched by the host for one layer forward
  Seconds launch = microseconds(6);   // host time of one launch
  double gradient_bytes = 4;          // of an element as accumulated
  double reduce_bytes = 4;            // of an element as reduced over data-parallel ranks
  double optimizer_bytes = 12;        // fp32 master weight and two moments
  double logit_bytes = 6;  // memory per logit at the loss: 16-bit logits and what the loss keeps beside them
  bool keeps_stage_outputs =
      false;             // a stage's outputs stay alive until their backward (old pipeline engines)
  Bytes reduce_buffers;  // flat buffers for reductions beside the gradients (DeepSpeed)
  bool double_buffered_reduction = false;  // ZeRO 2, 3: a bucket is filled while another is reduced
  bool p2p_overlap = false;                // pipeline transfers hide behind compute
  bool embedding_weighs_a_layer = false;
  bool selective_saves_products = false;      // torchtitan's per-operator selective recompute
  bool selective_recomputes_cheap = false;    // selective recompute redoes all that no product makes:
                                              // attention, norms, activations
  bool recompute_ends_before_output = false;  // full recompute leaves out the MLP's last product and its sum
  Seconds fixed_per_step = milliseconds(6);
  bool operator==(const RuntimeOptions&) const = default;
};

/// Gradient bucket of Megatron-core's DistributedDataParallel: the larger of 40 million elements and 1
/// million for each data-parallel rank, so that a ring's latency stays small beside its transfer.
[[nodiscard]] Bytes default_bucket(const RuntimeOptions& run, int data_parallel);

}  // namespace tpplan
