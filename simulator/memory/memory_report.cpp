#include "simulator/memory/memory_report.hpp"

#include <algorithm>
#include <cmath>

namespace tpplan {
namespace {

/// Share of the activations and buffers that lies in holes between blocks of the caching allocator.
constexpr double kFragmentation = 0.06;

/// Forwards of a rank before its first backward: what is in flight at the peak, in chunks.
int chunks_in_flight(const ParallelPlan& plan, int rank) {
  const auto m = static_cast<int>(plan.microbatches());
  switch (plan.schedule) {
    case ScheduleKind::gpipe:
      return m;
    case ScheduleKind::one_f_one_b:
      return std::min(m, plan.pp - rank);
    case ScheduleKind::interleaved:
      return std::min(m * plan.vpp, (plan.pp - rank - 1) * 2 + (plan.vpp - 1) * plan.pp + 1);
  }
  return m;
}

}  // namespace

Bytes StageMemory::allocated() const {
  return total() - of(MemoryCategory::context) - of(MemoryCategory::fragmentation);
}

Bytes StageMemory::total() const {
  Bytes sum{};
  for (const Bytes part : bytes) sum += part;
  return sum;
}

std::size_t MemoryReport::worst() const {
  std::size_t worst = 0;
  for (std::size_t i = 1; i < ranks.size(); ++i)
    if (ranks[i].total() > ranks[worst].total()) worst = i;
  return worst;
}

double layers_in_flight(const ParallelPlan& plan, int rank) {
  const int chunks = chunks_in_flight(plan, rank);
  if (plan.vpp == 1) return static_cast<double>(chunks) * plan.stages[static_cast<std::size_t>(rank)].layers;
  // Interleaved warm-up runs pp micro-batches of a chunk, then pp of the next, round and round.
  double layers = 0;
  const int round = plan.pp * plan.vpp;
  for (int chunk = 0; chunk < plan.vpp; ++chunk) {
    const int rest = std::clamp(chunks % round - chunk * plan.pp, 0, plan.pp);
    const int times = chunks / round * plan.pp + rest;
    layers += times * plan.stages[static_cast<std::size_t>(chunk * plan.pp + rank)].layers;
  }
  return layers;
}

LayerMemory layer_memory(const Problem& problem, int tp, bool sequence_parallel, int micro_batch,
                         Recompute recompute) {
  const ModelSpec& m = problem.model;
  const RuntimeOptions& run = problem.runtime;
  const double tokens = static_cast<double>(micro_batch) * problem.sequence;
  const double e = std::max(2.0, element_bytes(problem.precision));  // bytes of an activation element
  const double h = static_cast<double>(m.hidden);
  const double t = tp;
  const double split = sequence_parallel ? t : 1;  // of what lies outside the tensor-parallel products
  const double q = static_cast<double>(m.q_width()) / t;
  const double kv = std::max(static_cast<double>(m.kv_width()) / t, static_cast<double>(m.head_dim));
  const double f = static_cast<double>(m.ffn) / t;
  const double heads = m.heads / t;
  const double s = problem.sequence;

  // Inputs of the norms and of the two column products, per token.
  double outside = (m.norms_per_layer + 2) * h * e;
  if (run.dropout) outside += 2 * h;  // one byte of mask per element, after attention and after the MLP
  // A norm written as separate fp32 kernels keeps its fp32 input, its normalised value and the cast between.
  if (!run.fused_norm) outside += m.norms_per_layer * h * 10;
  if (run.fusion == Fusion::eager) outside += h * e;
  // Queries, keys, values, the context; the MLP's products and their activation.
  double inside = (2 * q + 2 * kv) * e + (m.gated_mlp ? 3 : 2) * f * e;
  if (run.fusion == Fusion::eager && m.gated_mlp) inside += f * e;
  // Naive attention keeps the softmax, and with dropout its mask and its output; separate kernels keep fp32
  // besides.
  double scores = run.attention >= AttentionKernel::flash1 ? 0 : heads * s * (e + (run.dropout ? e + 1 : 0));
  if (run.attention == AttentionKernel::torch) scores += heads * s * 4;
  if (run.attention >= AttentionKernel::flash1) inside += heads * 4;  // log-sum-exp of each row

  LayerMemory memory;
  const double all = outside / split + inside + scores;
  const double input = h * e / split;
  switch (recompute) {
    case Recompute::none:
      memory.saved = Bytes{tokens * all};
      break;
    case Recompute::selective: {
      const double products = q + 2 * kv + (m.gated_mlp ? 2 : 1) * f + 2 * h / split;
      // Norm inputs, queries, keys and values, and the MLP's products: the outputs of products and what they
      // were added to.
      const double products_only = 2 * input + (q + 2 * kv + (m.gated_mlp ? 2 : 1) * f) * e;
      const double kept = run.selective_saves_products     ? input + (q + products / 2) * e
                          : run.selective_recomputes_cheap ? products_only
                                                           : outside / split + inside;
      memory.saved = Bytes{tokens * kept};
      memory.recompute = Bytes{tokens * (all - kept)};
      break;
    }
    case Recompute::full:
      memory.saved = Bytes{tokens * input};
      memory.recompute = Bytes{tokens * all};
      break;
  }
  // Backward of the MLP: gradients of the activation's output and of its inputs, and one full-width gradient.
  memory.workspace = Bytes{tokens * ((m.gated_mlp ? 3 : 2) * f * e + 2 * h * e)};
  memory.embedding = Bytes{tokens * 8};
  const double rows =
      static_cast<double>(padded_vocabulary(m.vocabulary, tp)) / (run.parallel_cross_entropy ? t : 1);
  // Gathering the logits of all tensor ranks holds the parts and their concatenation beside what the loss
  // keeps.
  const double gathered = !run.parallel_cross_entropy && tp > 1 ? 2 * e : 0;
  memory.head = Bytes{tokens * (rows * (run.logit_bytes * e / 2 + gathered) + 2 * h * e / split)};
  memory.boundary = Bytes{tokens * input};
  return memory;
}

MemoryReport memory_report(const Problem& problem, const ParallelPlan& plan, const BlockParameters& blocks,
                           const LayerMemory& layer) {
  const RuntimeOptions& run = problem.runtime;
  const double shards = static_cast<double>(plan.dp) * plan.cp;
  const double weight_bytes = std::max(2.0, element_bytes(plan.precision));
  const double gradient_bytes = plan.precision == Precision::fp32 ? 4 : run.gradient_bytes;
  // Two moments only when the weights themselves are fp32.
  const double state_bytes = plan.precision == Precision::fp32 ? 8 : run.optimizer_bytes;
  const bool zero3 = plan.zero == ZeroStage::weights;

  MemoryReport report;
  report.ranks.resize(static_cast<std::size_t>(plan.pp));
  for (int rank = 0; rank < plan.pp; ++rank) {
    StageMemory& memory = report.ranks[static_cast<std::size_t>(rank)];
    const double parameters = rank_parameters(plan, blocks, rank);
    const bool head = rank == plan.pp - 1;
    memory.of(MemoryCategory::weights) = Bytes{parameters * weight_bytes / (zero3 ? shards : 1)};
    memory.of(MemoryCategory::gradients) =
        Bytes{parameters * gradient_bytes / (plan.zero >= ZeroStage::gradients ? shards : 1)};
    memory.of(MemoryCategory::optimizer_state) =
        Bytes{parameters * state_bytes / (plan.zero >= ZeroStage::optimizer ? shards : 1)};
    memory.of(MemoryCategory::activations) = layer.saved * layers_in_flight(plan, rank);
    if (rank == 0)
      memory.of(MemoryCategory::activations) +=
          layer.embedding * std::min<double>(plan.pp, plan.microbatches());
    memory.of(MemoryCategory::recompute) = layer.recompute;
    // The head's logits are gone before the layers' backward needs its workspace.
    if (head) {
      // GPipe runs every micro-batch's loss before the first backward.
      const double losses =
          plan.schedule == ScheduleKind::gpipe ? static_cast<double>(plan.microbatches()) : 1;
      memory.of(MemoryCategory::logits) = layer.head * losses;
      memory.of(MemoryCategory::workspace) = std::max(Bytes{0}, layer.workspace - layer.head);
    } else {
      memory.of(MemoryCategory::workspace) = layer.workspace;
    }
    Bytes& gathered = memory.of(MemoryCategory::gather_buffers);
    if (shards > 1) gathered += run.reduce_buffers;
    if (plan.sequence_parallel) gathered += 2 * layer.boundary * plan.tp;
    if (zero3 && shards > 1) {
      const double largest =
          std::max({blocks.layer, rank == 0 ? blocks.embedding : 0, head ? blocks.head : 0});
      gathered += Bytes{(blocks.layer + largest) * weight_bytes + largest * gradient_bytes};
    } else if (plan.zero == ZeroStage::gradients && shards > 1) {
      gathered += std::max(plan.bucket, Bytes{blocks.layer * gradient_bytes});
    }
    // Beside its sum, which is a share of it.
    if (plan.zero >= ZeroStage::gradients && shards > 1 && run.double_buffered_reduction)
      gathered +=
          (1 + 1 / shards) * std::max(zero3 ? Bytes{} : plan.bucket, Bytes{blocks.layer * gradient_bytes});
    if (plan.pp > 1) {
      const double outputs = run.keeps_stage_outputs ? chunks_in_flight(plan, rank) : 0;
      memory.of(MemoryCategory::pipeline_buffers) = (4 + outputs) * layer.boundary;
    }
    const int communicators = (plan.tp > 1 ? 1 : 0) + (plan.dp * plan.cp > 1 ? 1 : 0) + (plan.pp > 1 ? 1 : 0);
    memory.of(MemoryCategory::context) =
        problem.topology.device.context + problem.topology.device.communicator * communicators;
    const Bytes dynamic = memory.allocated() - memory.of(MemoryCategory::weights) -
                          memory.of(MemoryCategory::gradients) - memory.of(MemoryCategory::optimizer_state);
    memory.of(MemoryCategory::fragmentation) = dynamic * kFragmentation;
    memory.at_loss = head;
  }
  return report;
}

}  // namespace tpplan
