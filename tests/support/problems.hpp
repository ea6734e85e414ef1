#pragma once

#include "simulator/plan/problem.hpp"
#include "simulator/plan/runtime_profiles.hpp"
#include "simulator/topology/cluster_builder.hpp"

namespace tpplan::testing {

/// An A100-like device in round numbers, so that expectations can be worked out by hand.
inline DeviceSpec round_device() {
  DeviceSpec device;
  device.name = "round";
  device.memory = gibibytes(80);
  device.memory_bandwidth = gigabytes_per_second(2000);
  device.memory_efficiency = 0.5;
  device.multiprocessors = 100;
  for (const Precision p : {Precision::fp16, Precision::bf16}) {
    device.peak[static_cast<std::size_t>(p)] = teraflops(400);
    device.sustained[static_cast<std::size_t>(p)] = teraflops(200);
  }
  device.peak[static_cast<std::size_t>(Precision::fp32)] = teraflops(20);
  device.attention = {teraflops(100), teraflops(100), teraflops(100)};
  device.nvlink_bandwidth = gigabytes_per_second(300);
  device.kernel_floor = Seconds{0};
  return device;
}

/// A GPT of `layers` layers, hidden 1024, 16 heads, vocabulary 8192 (no padding up to tp 8), sequence 1024.
inline ModelSpec small_gpt(int layers) {
  ModelSpec model;
  model.name = "small";
  model.family = "gpt";
  model.layers = layers;
  model.hidden = 1024;
  model.heads = model.kv_heads = 16;
  model.head_dim = 64;
  model.ffn = 4096;
  model.vocabulary = 8192;
  model.sequence = 1024;
  model.max_positions = model.learned_positions = 1024;
  model.qkv_bias = model.attention_out_bias = model.mlp_bias = true;
  return model;
}

/// small_gpt on `gpus` round devices, eight to a node, 100 GB/s of network a node, `batch` samples a step.
inline Problem small_problem(int layers, int gpus, std::int64_t batch) {
  Problem problem;
  problem.model = small_gpt(layers);
  problem.topology = make_cluster(round_device(), gpus, 8, 8, gigabytes_per_second(100));
  problem.sequence = 1024;
  problem.global_batch = batch;
  problem.runtime = runtime_profile("megatron-core").value();
  return problem;
}

/// A legal plan of the problem with even stages.
inline ParallelPlan plan_of(const Problem& problem, int tp, int pp, int dp, int micro_batch = 1) {
  ParallelPlan plan;
  plan.tp = tp;
  plan.pp = pp;
  plan.dp = dp;
  plan.micro_batch = micro_batch;
  plan.global_batch = problem.global_batch;
  plan.sequence = problem.sequence;
  plan.precision = problem.precision;
  plan.runtime = problem.runtime;
  plan.bucket = default_bucket(plan.runtime, dp);
  plan.stages = even_stages(problem.model.layers, pp, 1);
  return plan;
}

}  // namespace tpplan::testing
