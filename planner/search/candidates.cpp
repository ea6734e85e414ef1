#include "planner/search/candidates.hpp"

#include <algorithm>
#include <tuple>

#include "planner/search/complete_plan.hpp"
#include "planner/search/parallel_for.hpp"

namespace tpplan {
namespace {

ParallelPlan layout(const Problem& problem, const Degrees& degrees, bool sequence_parallel, int micro_batch) {
  ParallelPlan plan;
  plan.tp = degrees.tp;
  plan.pp = degrees.pp;
  plan.dp = degrees.dp;
  plan.sequence_parallel = sequence_parallel;
  plan.micro_batch = micro_batch;
  plan.global_batch = problem.global_batch;
  plan.sequence = problem.sequence;
  plan.precision = problem.precision;
  plan.runtime = problem.runtime;
  plan.bucket = default_bucket(plan.runtime, plan.dp);
  return plan;
}

bool smaller(const Candidate& a, const Candidate& b) {
  return std::tie(a.peak_memory, a.order) < std::tie(b.peak_memory, b.order);
}

/// One thread's share of the enumeration.
struct Tally {
  std::vector<Candidate> candidates;
  std::map<Rule, std::uint64_t> rejected;
  std::map<Rule, std::pair<std::uint64_t, Violation>> examples;  // the earliest in the order of enumeration
  std::optional<Candidate> smallest;

  void reject(const Violation& violation, std::uint64_t count, std::uint64_t order) {
    rejected[violation.rule] += count;
    const auto [found, fresh] = examples.try_emplace(violation.rule, order, violation);
    if (!fresh && order < found->second.first) found->second = {order, violation};
  }
};

/// What one work item walks: fixed degrees, sequence parallelism and micro-batch.
struct Family {
  std::uint32_t degrees;
  bool sequence_parallel;
  int micro_batch;
  std::uint64_t first_order;
};

class Walker {
 public:
  Walker(const Problem& problem, const CostModel& model, const SearchOptions& options, const Space& space,
         const SharedCosts& shared)
      : problem_(problem), model_(model), options_(options), space_(space), shared_(shared) {
    limit_ = problem.topology.device.memory * (1 - options.memory_margin);
  }

  void walk(const Family& family, Tally& tally) const {
    const Degrees& degrees = space_.degrees[family.degrees];
    std::uint64_t order = family.first_order;
    ParallelPlan plan = layout(problem_, degrees, family.sequence_parallel, family.micro_batch);
    const std::vector<int> chunks = chunk_counts(problem_, options_, degrees.pp);
    for (const ScheduleKind schedule : space_.schedule)
      for (const int vpp : chunks) {
        plan.schedule = schedule;
        plan.vpp = vpp;
        const std::uint64_t inside = space_.recompute.size() * space_.zero.size();
        plan.zero = ZeroStage::none;
        plan.stages = problem_.model.layers >= plan.pp * vpp
                          ? even_stages(problem_.model.layers, plan.pp, vpp)
                          : std::vector<Stage>{};
        const std::vector<Violation> broken = violations(problem_, plan);
        if (!broken.empty()) {
          tally.reject(broken.front(), inside, order);
        } else {
          walk_inside(family, plan, order, tally);
        }
        order += inside;
      }
  }

 private:
  void walk_inside(const Family& family, ParallelPlan plan, std::uint64_t order, Tally& tally) const {
    for (const Recompute recompute : space_.recompute) {
      plan.recompute = recompute;
      const SharedCosts::Blocks& blocks =
          shared_.blocks({plan.tp, plan.sequence_parallel, plan.micro_batch, recompute});
      plan.stages = balanced_stages(problem_.model.layers, plan.pp, plan.vpp, blocks.costs);
      for (const ZeroStage zero : space_.zero) {
        plan.zero = zero;
        const std::uint64_t here = order++;
        if (zero != ZeroStage::none && plan.dp == 1) {
          const std::vector<Violation> broken = violations(problem_, plan);
          tally.reject(broken.front(), 1, here);
          continue;
        }
        evaluate(family, plan, blocks, here, tally);
      }
    }
  }

  void evaluate(const Family& family, ParallelPlan& plan, const SharedCosts::Blocks& blocks,
                std::uint64_t order, Tally& tally) const {
    Candidate candidate{
        .peak_memory = memory_report(problem_, plan, blocks.costs.parameters, blocks.memory).peak(),
        .order = order,
        .degrees = family.degrees,
        .micro_batch = plan.micro_batch,
        .vpp = static_cast<std::int16_t>(plan.vpp),
        .sequence_parallel = plan.sequence_parallel,
        .zero = plan.zero,
        .recompute = plan.recompute,
        .schedule = plan.schedule};
    if (!tally.smallest || smaller(candidate, *tally.smallest)) tally.smallest = candidate;
    if (candidate.peak_memory > limit_) {
      tally.reject(
          {Rule::memory,
           "needs " + to_string(candidate.peak_memory) + " of the " + to_string(limit_) + " that may be used",
           ""},
          1, order);
      return;
    }
    // Both orders of the axes are priced; the one with the lower bound is kept, the first when equal.
    for (const AxisOrder axis_order : {AxisOrder::tp_cp_dp_pp, AxisOrder::tp_cp_pp_dp}) {
      if (axis_order == AxisOrder::tp_cp_pp_dp && (plan.pp == 1 || plan.dp == 1)) continue;
      plan.order = axis_order;
      const Seconds bound = step_lower_bound(
          plan, plan_costs(problem_, model_, plan, blocks.costs, shared_.paths(family.degrees, axis_order)));
      if (axis_order == AxisOrder::tp_cp_dp_pp || bound < candidate.bound) {
        candidate.bound = bound;
        candidate.axis_order = axis_order;
      }
    }
    plan.order = AxisOrder::tp_cp_dp_pp;
    tally.candidates.push_back(candidate);
  }

  const Problem& problem_;
  const CostModel& model_;
  const SearchOptions& options_;
  const Space& space_;
  const SharedCosts& shared_;
  Bytes limit_;
};

std::vector<Family> families(const Problem& problem, const SearchOptions& options, const Space& space) {
  std::vector<Family> list;
  std::uint64_t order = 0;
  for (std::uint32_t d = 0; d < space.degrees.size(); ++d) {
    const std::uint64_t inside = space.schedule.size() *
                                 chunk_counts(problem, options, space.degrees[d].pp).size() *
                                 space.recompute.size() * space.zero.size();
    for (const bool sequence_parallel : space.sequence_parallel)
      for (const int micro_batch : micro_batches(problem, options, space.degrees[d].dp)) {
        list.push_back({d, sequence_parallel, micro_batch, order});
        order += inside;
      }
  }
  return list;
}

}  // namespace

SharedCosts::SharedCosts(const Problem& problem, const CostModel& model, const SearchOptions& options,
                         const Space& space) {
  for (const Degrees& degrees : space.degrees) {
    for (const AxisOrder order : {AxisOrder::tp_cp_dp_pp, AxisOrder::tp_cp_pp_dp}) {
      ParallelPlan plan = layout(problem, degrees, false, 1);
      plan.order = order;
      paths_.push_back(plan_paths(problem.topology, plan));
    }
    for (const int micro_batch : micro_batches(problem, options, degrees.dp))
      for (const bool sequence_parallel : space.sequence_parallel)
        for (const Recompute recompute : space.recompute) {
          const LayerKey key{degrees.tp, sequence_parallel, micro_batch, recompute};
          if (blocks_.contains(key)) continue;
          blocks_.emplace(key,
                          Blocks{layer_costs(problem, model, key),
                                 layer_memory(problem, key.tp, sequence_parallel, micro_batch, recompute)});
        }
  }
}

ParallelPlan plan_of(const Problem& problem, const Space& space, const SharedCosts& shared,
                     const Candidate& candidate) {
  ParallelPlan plan =
      layout(problem, space.degrees[candidate.degrees], candidate.sequence_parallel, candidate.micro_batch);
  plan.vpp = candidate.vpp;
  plan.zero = candidate.zero;
  plan.recompute = candidate.recompute;
  plan.schedule = candidate.schedule;
  plan.order = candidate.axis_order;
  const SharedCosts::Blocks& blocks =
      shared.blocks({plan.tp, plan.sequence_parallel, plan.micro_batch, plan.recompute});
  plan.stages = balanced_stages(problem.model.layers, plan.pp, plan.vpp, blocks.costs);
  return plan;
}

Enumeration enumerate(const Problem& problem, const CostModel& model, const SearchOptions& options,
                      const Space& space, const SharedCosts& shared, const std::stop_token& stop,
                      const std::function<void(double)>& progress) {
  const std::vector<Family> work = families(problem, options, space);
  const int threads = thread_count(options.threads);
  std::vector<Tally> tallies(static_cast<std::size_t>(threads));
  const Walker walker(problem, model, options, space, shared);
  parallel_for(work.size(), threads, stop, [&](std::size_t i, int thread) {
    walker.walk(work[i], tallies[static_cast<std::size_t>(thread)]);
    if (progress) progress(static_cast<double>(i) / static_cast<double>(work.size()));
  });

  Enumeration all;
  std::map<Rule, std::uint64_t> earliest;
  for (Tally& tally : tallies) {
    all.candidates.insert(all.candidates.end(), tally.candidates.begin(), tally.candidates.end());
    for (const auto& [rule, count] : tally.rejected) all.rejected[rule] += count;
    for (auto& [rule, example] : tally.examples) {
      const auto [found, fresh] = earliest.try_emplace(rule, example.first);
      if (!fresh && found->second <= example.first) continue;
      found->second = example.first;
      all.examples[rule] = std::move(example.second);
    }
    if (tally.smallest && (!all.smallest || smaller(*tally.smallest, *all.smallest)))
      all.smallest = tally.smallest;
  }
  std::sort(all.candidates.begin(), all.candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.order < b.order; });
  return all;
}

}  // namespace tpplan
