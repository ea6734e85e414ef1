#pragma once

#include <vector>

#include "simulator/cost/cost_model.hpp"
#include "simulator/plan/problem.hpp"

namespace tpplan {

/// Seconds of one micro-batch through one thing (a layer, an embedding, a head, a stage), by what they are spent on.
/// The parts add up to total(); the waterfall of `explain` is made of them.
struct Phase {
  Seconds ideal;            // model FLOPs at the device's datasheet peak
  Seconds product_loss;     // matrix products beyond that
  Seconds attention_loss;   // attention beyond that
  Seconds memory_bound;     // norms, activations, residuals, loss
  Seconds host;             // the host launches kernels more slowly than the device runs them
  Seconds recompute;        // everything that is done again
  Seconds tensor_parallel;  // exposed communication of the tensor-parallel group
  Flops flops;              // executed, recomputation included

  [[nodiscard]] Seconds total() const {
    return ideal + product_loss + attention_loss + memory_bound + host + recompute + tensor_parallel;
  }
  Phase& operator+=(const Phase& b);
  friend Phase operator*(Phase a, double k);
};

struct Passes {
  Phase forward, backward;
};

/// What decides the cost of a layer, besides the problem.
struct LayerKey {
  int tp = 1;
  bool sequence_parallel = false;
  int micro_batch = 1;
  Recompute recompute = Recompute::none;
  auto operator<=>(const LayerKey&) const = default;
};

/// Costs of the building blocks for one LayerKey, one micro-batch, one tensor rank.
struct LayerCosts {
  Passes layer, embedding, head;
  double layer_parameters = 0;      // held by one tensor rank
  double embedding_parameters = 0;
  double head_parameters = 0;       // 0 when tied and the embedding is on the same rank
  double tied_parameters = 0;       // copy of the embedding on the last rank, when tied and pp > 1
  Bytes boundary;                   // activations that pass from one stage to the next, of one tensor rank
};

/// Communication of the data-parallel axis and the optimizer for one pipeline rank.
struct RankCosts {
  double parameters = 0;     // held by one tensor rank (ZeRO-3: before sharding)
  int buckets = 1;
  Seconds reduce;            // gradients, all buckets one after another
  Seconds gather;            // parameters after the optimizer (ZeRO 1, 2)
  Seconds optimizer;
};

/// Everything that the engine and the closed form need of one plan.
struct PlanCosts {
  std::vector<Passes> stages;         // [pp * vpp], one micro-batch
  std::vector<Seconds> transfer;      // [pp * vpp - 1], stage i to i + 1, one direction, one micro-batch
  double transfer_blocks = 0;         // share of a transfer during which the receiver's compute waits
  std::vector<RankCosts> ranks;       // [pp]
  // ZeRO-3, per layer and micro-batch
  Seconds layer_gather, layer_reduce;
  Seconds embedding_gather, head_gather;
  bool gather_overlaps = true;
  Seconds gradient_norm;              // the norm's reduction over all axes
  Seconds fixed;                      // data, logging
  double overlap_slowdown = 0;
  double straggler = 1;               // all compute is this much slower
};

/// Cost of the blocks. About 2 microseconds; callers keep it by key.
[[nodiscard]] LayerCosts layer_costs(const Problem& problem, const CostModel& model, const LayerKey& key);

/// Puts the blocks together for one plan. `plan` must be legal.
[[nodiscard]] PlanCosts plan_costs(const Problem& problem, const CostModel& model, const ParallelPlan& plan,
                                   const LayerCosts& blocks);

}  // namespace tpplan
