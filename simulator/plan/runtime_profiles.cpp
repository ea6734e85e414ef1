#include "simulator/plan/runtime_profiles.hpp"

#include <algorithm>
#include <functional>
#include <map>

namespace tpplan {
namespace {

/// Megatron-LM of 2021 (Narayanan et al., arXiv 2104.04473): JIT-fused bias-GELU and bias-dropout-add, fused
/// scale-mask-softmax, no sequence parallelism, every collective waits, gradients reduced after the last
/// backward.
RuntimeOptions megatron_2021() {
  RuntimeOptions o;
  o.framework = "megatron-lm-2021";
  o.attention = AttentionKernel::fused_softmax;
  o.dropout = true;
  o.fusion = Fusion::jit;
  o.fused_cross_entropy = false;
  o.tp_overlap = TpOverlap::none;
  o.dp_overlap = DpOverlap::none;
  o.gradient_bucketing = false;
  o.kernels_per_layer = 65;
  o.launch = microseconds(13);
  o.gradient_bytes = 2;
  o.reduce_bytes = 2;
  o.optimizer_bytes = 16;  // fp32 master, two moments and the fp32 copy of the gradient
  o.logit_bytes = 12;      // logits, their fp32 copy, the softmax and its gradient
  return o;
}

/// Megatron-LM of 2022 (Korthikanti et al., arXiv 2205.05198): fp32 main gradients, backward collective
/// behind the weight-gradient product.
RuntimeOptions megatron_2022() {
  RuntimeOptions o = megatron_2021();
  o.framework = "megatron-lm-2022";
  o.tp_overlap = TpOverlap::wgrad;
  o.gradient_bytes = 4;
  o.reduce_bytes = 4;
  o.optimizer_bytes = 12;
  return o;
}

RuntimeOptions megatron_deepspeed() {
  RuntimeOptions o = megatron_2021();
  o.framework = "megatron-deepspeed";
  o.keeps_stage_outputs = true;
  o.reduce_buffers = Bytes{2 * 5e8 * 2};  // reduce_bucket_size of 5e8 elements, double-buffered
  return o;
}

/// A research fork of Megatron-LM of 2023 with Llama blocks: RMSNorm and rotary embedding in eager PyTorch.
RuntimeOptions megatron_like() {
  RuntimeOptions o = megatron_2022();
  o.framework = "megatron-like";
  o.dropout = false;
  o.fused_norm = false;
  o.fusion = Fusion::jit;
  o.attention = AttentionKernel::flash2;
  o.kernels_per_layer = 80;
  o.parallel_cross_entropy = false;
  o.gradient_bytes = 2;
  return o;
}

/// DeepSpeed's ZeRO-3 as measured in arXiv 2104.04473: parameters gathered one tensor at a time (each weight
/// and bias of a layer: twelve, the four matrices carry the bytes), not overlapped.
RuntimeOptions deepspeed_2021() {
  RuntimeOptions o = megatron_2021();
  o.framework = "deepspeed-2021";
  o.zero3_bandwidth_share = 0.25;
  o.zero3_messages = 12;
  return o;
}

/// Megatron-core 0.14 with Transformer Engine: fused norms, fp32 gradients in buckets, optional overlaps off.
RuntimeOptions megatron_core() {
  RuntimeOptions o;
  o.framework = "megatron-core";
  o.attention = AttentionKernel::flash3;
  return o;
}

/// NeMo's recipes for DGX Cloud: user-buffer overlap, distributed optimizer with overlapped reduction and
/// gather.
RuntimeOptions nemo() {
  RuntimeOptions o = megatron_core();
  o.framework = "nemo";
  o.tp_overlap = TpOverlap::user_buffers;
  o.gather_overlaps = true;
  o.p2p_overlap = true;
  o.gradient_bytes = 2;
  o.reduce_bytes = 2;
  return o;
}

RuntimeOptions megatron_bridge() {
  RuntimeOptions o = nemo();
  o.framework = "megatron-bridge";
  o.gradient_bytes = 4;
  o.reduce_bytes = 4;
  o.cuda_graphs = true;
  return o;
}

/// Composer with PyTorch FSDP and MPT models: Triton flash attention of the first generation, eager kernels.
RuntimeOptions composer_fsdp() {
  RuntimeOptions o;
  o.framework = "composer-fsdp";
  o.attention = AttentionKernel::flash1;
  o.fusion = Fusion::eager;
  o.fused_cross_entropy = false;
  o.kernels_per_layer = 60;
  return o;
}

/// torchtitan: FSDP2, per-layer torch.compile when asked for, gradients reduced in fp32.
RuntimeOptions torchtitan() {
  RuntimeOptions o;
  o.framework = "torchtitan";
  o.logit_bytes = 12;
  o.attention = AttentionKernel::flash2;
  o.fusion = Fusion::eager;
  o.fused_norm = true;
  o.fused_cross_entropy = false;
  o.tp_overlap = TpOverlap::none;
  o.kernels_per_layer = 50;
  return o;
}

/// MaxText or PaxML on XLA: everything compiled, one program a step.
RuntimeOptions maxtext() {
  RuntimeOptions o = megatron_core();
  o.framework = "maxtext-or-paxml";
  o.fusion = Fusion::compiled;
  o.gather_overlaps = true;
  o.cuda_graphs = true;
  return o;
}

/// This project's own executor: every kernel reads and writes its operands once, gradients are reduced by a
/// thread of their own, collectives of the tensor group wait, logits become their gradient in place.
RuntimeOptions tpplan_executor() {
  RuntimeOptions o;
  o.framework = "tpplan";
  o.attention = AttentionKernel::flash2;
  o.tp_overlap = TpOverlap::none;
  o.cuda_graphs = true;  // calls of functions, not launches
  o.logit_bytes = 2;
  o.double_buffered_reduction = true;
  o.p2p_overlap = true;
  o.selective_recomputes_cheap = true;
  o.recompute_ends_before_output = true;
  o.fixed_per_step = Seconds{0};
  return o;
}

using Factory = RuntimeOptions (*)();

const std::map<std::string, Factory, std::less<>>& profiles() {
  static const std::map<std::string, Factory, std::less<>> table{{"composer-fsdp", composer_fsdp},
                                                                 {"deepspeed-2021", deepspeed_2021},
                                                                 {"maxtext-or-paxml", maxtext},
                                                                 {"megatron-bridge", megatron_bridge},
                                                                 {"megatron-core", megatron_core},
                                                                 {"megatron-core-0.14", megatron_core},
                                                                 {"megatron-deepspeed", megatron_deepspeed},
                                                                 {"megatron-like", megatron_like},
                                                                 {"megatron-lm-2021", megatron_2021},
                                                                 {"megatron-lm-2022", megatron_2022},
                                                                 {"nemo", nemo},
                                                                 {"torchtitan", torchtitan},
                                                                 {"tpplan", tpplan_executor}};
  return table;
}

}  // namespace

Bytes default_bucket(const RuntimeOptions& run, int data_parallel) {
  return Bytes{std::max(40e6, 1e6 * data_parallel) * run.reduce_bytes};
}

std::optional<RuntimeOptions> runtime_profile(std::string_view name) {
  const auto found = profiles().find(name);
  if (found == profiles().end()) return std::nullopt;
  RuntimeOptions options = found->second();
  options.framework = name;
  return options;
}

std::string closest_profile_name(std::string_view name) {
  std::string closest;
  std::size_t longest = 4;
  for (const auto& entry : profiles()) {
    const auto end = std::mismatch(name.begin(), name.end(), entry.first.begin(), entry.first.end()).first;
    const auto common = static_cast<std::size_t>(end - name.begin());
    if (common >= longest) {
      longest = common;
      closest = entry.first;
    }
  }
  if (!closest.empty()) return closest;
  return name.find("fsdp") != std::string_view::npos ? "composer-fsdp" : "megatron-core";
}

std::vector<std::string> runtime_profile_names() {
  std::vector<std::string> names;
  for (const auto& entry : profiles()) names.push_back(entry.first);
  return names;
}

}  // namespace tpplan
