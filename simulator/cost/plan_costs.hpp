#pragma once

#include <vector>

#include "simulator/cost/cost_model.hpp"
#include "simulator/plan/problem.hpp"
#include "simulator/plan/shares.hpp"

namespace tpplan {

/// Seconds of one micro-batch through one thing (a layer, an embedding, a head, a stage), by what they are
/// spent on. The parts add up to total(); the waterfall of `explain` is made of them.
struct Phase {
  Seconds ideal;                  // model FLOPs at the device's datasheet peak
  Seconds product_loss;           // matrix products beyond that
  Seconds attention_loss;         // attention beyond that
  Seconds memory_bound;           // norms, activations, residuals, loss
  Seconds host;                   // the host launches kernels more slowly than the device runs them
  Seconds recompute;              // everything that is done again
  Seconds recompute_collectives;  // of which the tensor-parallel group's
  Seconds tensor_parallel;        // exposed communication of the tensor-parallel group
  Flops flops;                    // executed, recomputation included
  Bytes tensor_parallel_bytes;    // that the tensor-parallel group moves per rank, seen or hidden

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
  BlockParameters parameters;  // held by one tensor rank
  Bytes boundary;              // activations that pass from one stage to the next, of one tensor rank
};

/// Communication of the data-parallel axis and the optimizer for one pipeline rank.
struct RankCosts {
  double parameters = 0;  // held by one tensor rank (ZeRO-3: before sharding)
  int buckets = 1;
  Seconds reduce;  // gradients, all buckets one after another
  Seconds gather;  // parameters after the optimizer (ZeRO 1, 2)
  Seconds optimizer;
};

/// A layer, the embedding or the head, as one micro-batch on one tensor rank meets it.
struct Block {
  Passes passes;
  double parameters = 0;
  Seconds gather, reduce;  // ZeRO 3 only: its weights before a pass, its gradients after the backward
};

/// Everything that the engine and the closed form need of one plan.
struct PlanCosts {
  Block layer, embedding, head;
  std::vector<Passes> stages;      // [pp * vpp], one micro-batch: the sums of their blocks
  std::vector<double> parameters;  // [pp * vpp]
  std::vector<Seconds> transfer;   // [pp * vpp - 1], stage i to i + 1, one direction, one micro-batch
  double transfer_blocks = 0;      // share of a transfer during which the receiver's compute waits
  Bytes boundary;                  // bytes of a transfer
  std::vector<RankCosts> ranks;    // [pp]
  bool reduces_overlap = true;     // gradients are reduced while the backward goes on
  bool gathers_overlap = false;    // ZeRO 1, 2: gathered during the first forward of the step
  bool gathers_twice = true;       // ZeRO 3: gathered again for the backward
  Seconds tied_reduce;             // the two copies of a tied embedding, first and last pipeline rank
  Seconds gradient_norm;           // the norm's reduction over all axes
  Seconds fixed;                   // data, logging
  double gradient_bytes = 4;       // of an element as reduced
  double overlap_slowdown = 0;
  double shared_cores = 0;         // Topology::shared_cores
  bool reductions_compute = true;  // data-parallel sums are taken in one node, by its cores
  double straggler = 1;            // all compute is this much slower
};

/// The groups of one layout on the topology. They do not depend on batch, ZeRO or recompute; callers keep
/// them by degrees.
struct PlanPaths {
  GroupPath replicas;           // the data- (and context-) parallel group
  std::vector<GroupPath> hops;  // [pp], from pipeline rank i to (i + 1) % pp; empty without a pipeline
  GroupPath ends;               // first to last pipeline rank
  GroupPath everyone;
};
[[nodiscard]] PlanPaths plan_paths(const Topology& topology, const ParallelPlan& plan);

/// Cost of the blocks. About 2 microseconds; callers keep it by key.
[[nodiscard]] LayerCosts layer_costs(const Problem& problem, const CostModel& model, const LayerKey& key);

/// Puts the blocks together for one plan. `plan` must be legal.
[[nodiscard]] PlanCosts plan_costs(const Problem& problem, const CostModel& model, const ParallelPlan& plan,
                                   const LayerCosts& blocks, const PlanPaths& paths);

}  // namespace tpplan
