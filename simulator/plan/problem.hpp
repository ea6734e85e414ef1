#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulator/model/model_spec.hpp"
#include "simulator/plan/parallel_plan.hpp"
#include "simulator/topology/topology.hpp"

namespace tpplan {

/// What is to be trained, on what, with which software: everything that is given before a plan is chosen.
struct Problem {
  ModelSpec model;
  Topology topology;              // cut to the GPUs that are used
  int sequence = 0;               // tokens of a sample
  std::int64_t global_batch = 0;  // samples of an optimizer step
  Precision precision = Precision::bf16;
  RuntimeOptions runtime;
  int max_tp = 0;             // 0: tensor_parallel_island
  bool causal_flops = false;  // MFU counts half of the attention square
};

/// Devices over which tensor parallelism may span unless it was asked for: those that NVLink joins, or where
/// there is no NVLink, those of a machine.
[[nodiscard]] int tensor_parallel_island(const Topology& topology);

/// Every rule of `plan` that the problem breaks, with the numbers and the nearest legal values; empty when
/// legal. Memory is not checked here (Rule::memory comes from a MemoryReport).
[[nodiscard]] std::vector<Violation> violations(const Problem& problem, const ParallelPlan& plan);

/// Tensor-parallel degrees up to `limit` that are legal for the model, and for each other degree the reason
/// why not.
struct TpDegree {
  int tp = 1;
  std::string reason;  // empty: legal
  std::string note;    // "KV heads replicated twice", "vocabulary padded by 47 rows"
};
[[nodiscard]] std::vector<TpDegree> tp_degrees(const ModelSpec& model, int limit);

/// Rows of the vocabulary after padding so that every tensor rank holds the same multiple of 128 rows
/// (Megatron-LM).
[[nodiscard]] std::int64_t padded_vocabulary(std::int64_t vocabulary, int tp);

}  // namespace tpplan
