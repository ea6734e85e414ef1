#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <tuple>

#include "planner/search/candidates.hpp"
#include "planner/search/parallel_for.hpp"

namespace tpplan {
namespace {

struct Simulated {
  Seconds step;
  const Candidate* candidate;
};

/// By what the user wants, then by the other, then by the order of enumeration.
bool better(const Simulated& a, const Simulated& b, Objective objective) {
  const auto key = [&](const Simulated& s) {
    const double time = s.step.value(), memory = s.candidate->peak_memory.value();
    return objective == Objective::memory ? std::tuple(memory, time, s.candidate->order)
                                          : std::tuple(time, 0.0, s.candidate->order);
  };
  return key(a) < key(b);
}

/// The best plans simulated so far, shared by all threads.
class Best {
 public:
  Best(std::size_t capacity, Objective objective) : capacity_(capacity), objective_(objective) {}

  void add(const Simulated& plan) {
    const std::scoped_lock lock(mutex_);
    const auto place =
        std::upper_bound(list_.begin(), list_.end(), plan,
                         [&](const Simulated& a, const Simulated& b) { return better(a, b, objective_); });
    list_.insert(place, plan);
    if (list_.size() > capacity_) list_.pop_back();
    if (list_.size() == capacity_) worst_ = list_.back().step.value();
  }
  /// No plan whose step takes longer can still enter the list.
  [[nodiscard]] double worst_step() const { return worst_; }
  [[nodiscard]] const std::vector<Simulated>& list() const { return list_; }

 private:
  std::size_t capacity_;
  Objective objective_;
  std::mutex mutex_;
  std::vector<Simulated> list_;
  std::atomic<double> worst_{std::numeric_limits<double>::infinity()};
};

/// Candidates worth simulating, most promising first.
std::vector<const Candidate*> queue_of(const Enumeration& all, const SearchOptions& options) {
  std::vector<const Candidate*> queue;
  for (const Candidate& candidate : all.candidates) queue.push_back(&candidate);
  if (options.objective == Objective::memory) {
    std::sort(queue.begin(), queue.end(), [](const Candidate* a, const Candidate* b) {
      return std::tie(a->peak_memory, a->bound, a->order) < std::tie(b->peak_memory, b->bound, b->order);
    });
    // Only ties with the last place can still change the list.
    const auto top = static_cast<std::size_t>(options.top);
    if (queue.size() > top) {
      const Bytes limit = queue[top - 1]->peak_memory;
      const auto end = std::find_if(queue.begin(), queue.end(),
                                    [&](const Candidate* c) { return c->peak_memory > limit; });
      queue.erase(end, queue.end());
    }
    return queue;
  }
  std::sort(queue.begin(), queue.end(), [](const Candidate* a, const Candidate* b) {
    return std::tie(a->bound, a->order) < std::tie(b->bound, b->order);
  });
  return queue;
}

}  // namespace

SearchResult search(const Problem& problem, const CostModel& model, const SearchOptions& options,
                    const std::stop_token& stop, const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  const Space space = make_space(problem, options);
  const SharedCosts shared(problem, model, options, space);
  const auto half = [&](double offset) -> Progress {
    if (!progress) return {};
    return [&progress, offset](double share) { progress(offset + share / 2); };
  };
  Enumeration all = enumerate(problem, model, options, space, shared, stop, half(0));

  const std::vector<const Candidate*> queue = queue_of(all, options);
  Best best(static_cast<std::size_t>(std::max(1, options.top)), options.objective);
  std::atomic<std::uint64_t> simulated{0};
  const Progress second = half(0.5);
  parallel_for(queue.size(), thread_count(options.threads), stop, [&](std::size_t i, int) {
    const Candidate& candidate = *queue[i];
    if (options.objective == Objective::throughput && candidate.bound.value() > best.worst_step()) return;
    const ParallelPlan plan = plan_of(problem, space, shared, candidate);
    const auto& blocks = shared.blocks({plan.tp, plan.sequence_parallel, plan.micro_batch, plan.recompute});
    const PlanCosts costs =
        plan_costs(problem, model, plan, blocks.costs, shared.paths(candidate.degrees, candidate.axis_order));
    best.add({simulate_step_time(plan, costs), &candidate});
    ++simulated;
    if (second) second(static_cast<double>(i) / static_cast<double>(queue.size()));
  });

  SearchResult result;
  result.space = space.size;
  result.rejected = std::move(all.rejected);
  result.examples = std::move(all.examples);
  result.simulated = simulated;
  result.pruned = all.candidates.size() - result.simulated;
  const auto ranked = [&](const Candidate& candidate) {
    RankedPlan plan{plan_of(problem, space, shared, candidate), {}};
    plan.report = simulate_plan(problem, model, plan.plan);
    return plan;
  };
  for (const Simulated& plan : best.list()) result.plans.push_back(ranked(*plan.candidate));
  if (result.plans.empty() && all.smallest && !stop.stop_requested()) result.nearest = ranked(*all.smallest);
  result.wall = Seconds{std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
  return result;
}

}  // namespace tpplan
