#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

#include "simulator/plan/problem.hpp"

namespace tpplan {
namespace {

using Violations = std::vector<Violation>;

/// Ten times what any published run has; keeps a step's task graph in memory.
constexpr std::int64_t kMostMicrobatches = 16'384;

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d * d <= n; ++d)
    if (n % d == 0) {
      low.push_back(d);
      if (d * d != n) high.push_back(n / d);
    }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

/// The nearest members of an ascending list below and above `value`: "4 or 8".
std::string nearest(const std::vector<std::int64_t>& legal, std::int64_t value) {
  const auto above = std::lower_bound(legal.begin(), legal.end(), value);
  std::vector<std::int64_t> near;
  if (above != legal.begin()) near.push_back(*(above - 1));
  if (above != legal.end()) near.push_back(*above);
  return fmt::format("{}", fmt::join(near, " or "));
}

std::string nearest_legal_tp(const ModelSpec& model, int tp) {
  std::vector<std::int64_t> legal;
  for (const TpDegree& degree : tp_degrees(model, std::max(model.heads, tp)))
    if (degree.reason.empty()) legal.push_back(degree.tp);
  return "tp " + nearest(legal, tp);
}

void check_tensor_parallel(const Problem& problem, const ParallelPlan& plan, Violations& found) {
  const ModelSpec& model = problem.model;
  if (model.heads % plan.tp != 0) {
    found.push_back({Rule::heads, fmt::format("tp {} does not divide {} heads", plan.tp, model.heads),
                     nearest_legal_tp(model, plan.tp)});
  } else if (model.kv_heads % plan.tp != 0 && plan.tp % model.kv_heads != 0) {
    found.push_back(
        {Rule::kv_heads,
         fmt::format("tp {} neither divides {} KV heads nor is a multiple of them", plan.tp, model.kv_heads),
         nearest_legal_tp(model, plan.tp)});
  } else if (model.ffn % plan.tp != 0) {
    found.push_back({Rule::hidden, fmt::format("tp {} does not divide the MLP width {}", plan.tp, model.ffn),
                     nearest_legal_tp(model, plan.tp)});
  }
  if (plan.sequence_parallel && plan.tp == 1)
    found.push_back({Rule::sequence_needs_tp, "sequence parallelism splits over tensor ranks, and tp is 1",
                     "sequence_parallel: false"});
  else if (plan.sequence_parallel && plan.sequence % plan.tp != 0)
    found.push_back({Rule::sequence_split,
                     fmt::format("tp {} does not divide the sequence of {} tokens", plan.tp, plan.sequence),
                     fmt::format("sequence {}", (plan.sequence / plan.tp + 1) * plan.tp)});
  const int island = tensor_parallel_island(problem.topology);
  if (plan.tp > std::max(island, problem.max_tp))
    found.push_back({Rule::island,
                     problem.topology.nvlink_domain > 1
                         ? fmt::format("tp {} spans more than the {} GPUs that NVLink joins", plan.tp, island)
                         : fmt::format("tp {} spans more than the {} devices of a machine", plan.tp, island),
                     fmt::format("tp {} or less, or --max-tp {}", island, plan.tp)});
}

}  // namespace

int tensor_parallel_island(const Topology& topology) {
  return std::max(1, topology.nvlink_domain > 1 ? topology.nvlink_domain : topology.gpus_per_node);
}

namespace {

bool stages_cover(const ParallelPlan& plan, int layers) {
  int next = 0;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const Stage& stage = plan.stages[i];
    if (stage.first_layer != next || stage.layers < 0) return false;
    if (stage.embedding != (i == 0) || stage.head != (i + 1 == plan.stages.size())) return false;
    next += stage.layers;
  }
  return next == layers &&
         plan.stages.size() == static_cast<std::size_t>(plan.pp) * static_cast<std::size_t>(plan.vpp);
}

void check_pipeline(const Problem& problem, const ParallelPlan& plan, Violations& found) {
  const int layers = problem.model.layers;
  if (static_cast<std::int64_t>(plan.pp) * plan.vpp > layers) {
    found.push_back({Rule::layers,
                     fmt::format("{} layers cannot fill pp {} x vpp {} = {} stages", layers, plan.pp,
                                 plan.vpp, static_cast<std::int64_t>(plan.pp) * plan.vpp),
                     fmt::format("pp x vpp of {} or less", layers)});
  } else if (!stages_cover(plan, layers)) {
    int held = 0;
    for (const Stage& stage : plan.stages) held += stage.layers;
    found.push_back(
        {Rule::stages_cover,
         fmt::format("{} stages hold {} of the model's {} layers in order, embedding first and head last",
                     plan.stages.size(), held, layers),
         fmt::format("{} contiguous stages with {} layers in all", plan.pp * plan.vpp, layers)});
  }
  const bool interleaved = plan.schedule == ScheduleKind::interleaved;
  if (interleaved && (plan.vpp < 2 || plan.pp < 2))
    found.push_back(
        {Rule::interleaving,
         fmt::format("the interleaved schedule needs pp and vpp of 2 or more, not pp {} and vpp {}", plan.pp,
                     plan.vpp),
         "schedule 1f1b"});
  else if (!interleaved && plan.vpp > 1)
    found.push_back({Rule::interleaving,
                     fmt::format("vpp {} needs the interleaved schedule, not {}", plan.vpp,
                                 kScheduleNames[static_cast<std::size_t>(plan.schedule)]),
                     "vpp 1, or schedule interleaved"});
}

void check_batch(const ParallelPlan& plan, Violations& found) {
  const std::int64_t together = static_cast<std::int64_t>(plan.micro_batch) * plan.dp;
  if (plan.global_batch % together != 0) {
    const std::int64_t per_rank = plan.global_batch / plan.dp;
    const std::string micro =
        plan.global_batch % plan.dp == 0
            ? fmt::format("micro-batch {}, or ", nearest(divisors(per_rank), plan.micro_batch))
            : std::string{};
    const std::int64_t below = plan.global_batch / together * together;
    found.push_back({Rule::batch,
                     fmt::format("global batch {} is not micro-batch {} x dp {} x a whole number",
                                 plan.global_batch, plan.micro_batch, plan.dp),
                     below > 0 ? fmt::format("{}global batch {} or {}", micro, below, below + together)
                               : fmt::format("{}global batch {}", micro, together)});
  } else if (plan.microbatches() > kMostMicrobatches) {
    found.push_back(
        {Rule::batch,
         fmt::format("{} micro-batches a step are more than the {} that are simulated", plan.microbatches(),
                     kMostMicrobatches),
         fmt::format("micro-batch {}", plan.micro_batch * (plan.microbatches() / kMostMicrobatches + 1))});
  } else if (plan.schedule == ScheduleKind::interleaved && plan.pp > 1 &&
             plan.microbatches() % plan.pp != 0) {
    found.push_back(
        {Rule::microbatch_multiple,
         fmt::format("the interleaved schedule needs the {} micro-batches to be a multiple of pp {}",
                     plan.microbatches(), plan.pp),
         fmt::format("global batch {}", (plan.microbatches() / plan.pp + 1) * plan.pp * together)});
  }
}

void check_modelled(const Problem& problem, const ParallelPlan& plan, Violations& found) {
  if (problem.model.moe)
    found.push_back({Rule::experts,
                     fmt::format("{} has {} experts; mixtures of experts are not priced", problem.model.name,
                                 problem.model.moe->experts),
                     "a dense model"});
  if (plan.cp != 1 || plan.ep != 1)
    found.push_back(
        {Rule::context_parallel,
         fmt::format("context and expert parallelism are not priced (cp {}, ep {})", plan.cp, plan.ep),
         "cp 1 and ep 1"});
  const bool priced = plan.precision == Precision::fp32 || plan.precision == Precision::fp16 ||
                      plan.precision == Precision::bf16;
  const auto precision = name(plan.precision);
  if (!priced)
    found.push_back({Rule::precision, fmt::format("{} is not priced", precision), "bf16, fp16 or fp32"});
  else if (problem.topology.device.peak_rate(plan.precision).value() <= 0)
    found.push_back({Rule::precision,
                     fmt::format("{} has no {} units", problem.topology.device.name, precision),
                     "another precision"});
}

}  // namespace

std::int64_t padded_vocabulary(std::int64_t vocabulary, int tp) {
  const std::int64_t multiple = 128LL * tp;
  return (vocabulary + multiple - 1) / multiple * multiple;
}

std::vector<TpDegree> tp_degrees(const ModelSpec& model, int limit) {
  std::vector<TpDegree> degrees;
  for (int tp = 1; tp <= limit; ++tp) {
    TpDegree degree{.tp = tp};
    if (model.heads % tp != 0)
      degree.reason = fmt::format("does not divide {} heads", model.heads);
    else if (model.kv_heads % tp != 0 && tp % model.kv_heads != 0)
      degree.reason = fmt::format("neither divides {} KV heads nor is a multiple of them", model.kv_heads);
    else if (model.ffn % tp != 0)
      degree.reason = fmt::format("does not divide the MLP width {}", model.ffn);
    std::vector<std::string> notes;
    if (tp > model.kv_heads)
      notes.push_back(fmt::format("each KV head is held by {} ranks", tp / model.kv_heads));
    const std::int64_t padding = padded_vocabulary(model.vocabulary, tp) - model.vocabulary;
    if (padding > 0)
      notes.push_back(
          fmt::format("vocabulary padded by {} rows ({:.2f} %)", padding,
                      100.0 * static_cast<double>(padding) / static_cast<double>(model.vocabulary)));
    degree.note = fmt::format("{}", fmt::join(notes, "; "));
    degrees.push_back(std::move(degree));
  }
  return degrees;
}

std::vector<Violation> violations(const Problem& problem, const ParallelPlan& plan) {
  Violations found;
  // In double, because degrees of a hand-written plan may be anything.
  const double others = static_cast<double>(plan.tp) * plan.cp * plan.pp;
  const double gpus = problem.topology.gpus;
  if (others * plan.dp != gpus)
    found.push_back({Rule::world_size,
                     fmt::format("tp {} x cp {} x dp {} x pp {} = {:.0f}, and the cluster has {} GPUs",
                                 plan.tp, plan.cp, plan.dp, plan.pp, others * plan.dp, problem.topology.gpus),
                     std::fmod(gpus, others) == 0 ? fmt::format("dp {:.0f}", gpus / others)
                                                  : "degrees whose product is the number of GPUs"});
  check_modelled(problem, plan, found);
  check_tensor_parallel(problem, plan, found);
  check_pipeline(problem, plan, found);
  check_batch(plan, found);
  if (plan.zero != ZeroStage::none && plan.dp * plan.cp == 1)
    found.push_back(
        {Rule::zero_needs_dp,
         fmt::format("ZeRO {} shards over data-parallel ranks, and dp is 1", static_cast<int>(plan.zero)),
         "zero 0"});
  if (problem.model.position == PositionKind::learned && problem.model.learned_positions > 0 &&
      plan.sequence > problem.model.learned_positions)
    found.push_back({Rule::positions,
                     fmt::format("a sequence of {} tokens is longer than the table of {} positions",
                                 plan.sequence, problem.model.learned_positions),
                     fmt::format("sequence {} or less", problem.model.learned_positions)});
  return found;
}

}  // namespace tpplan
