#include "planner/space/space.hpp"

#include <algorithm>

namespace tpplan {
namespace {

template <class T>
std::vector<T> axis(const std::vector<T>& fixed, std::vector<T> all) {
  return fixed.empty() ? std::move(all) : fixed;
}

std::vector<int> divisors_up_to(int n, int limit) {
  std::vector<int> divisors;
  for (int d = 1; d <= std::min(n, limit); ++d)
    if (n % d == 0) divisors.push_back(d);
  return divisors;
}

}  // namespace

std::vector<int> chunk_counts(const Problem& problem, const SearchOptions& options, int pp) {
  if (!options.vpp.empty()) return options.vpp;
  std::vector<int> counts;
  const int most = pp > 1 ? std::max(1, problem.model.layers / pp) : 1;
  for (int vpp = 1; vpp <= most; ++vpp) counts.push_back(vpp);
  return counts;
}

std::vector<int> micro_batches(const Problem& problem, const SearchOptions& options, int dp) {
  if (!options.micro_batch.empty()) return options.micro_batch;
  std::vector<int> sizes;
  const std::int64_t most = std::max<std::int64_t>(1, problem.global_batch / dp);
  for (std::int64_t size = 1; size <= most && size <= 1 << 20; size *= 2)
    sizes.push_back(static_cast<int>(size));
  return sizes;
}

Space make_space(const Problem& problem, const SearchOptions& options) {
  Space space;
  const int gpus = problem.topology.gpus;
  const int limit = problem.max_tp > 0 ? problem.max_tp : tensor_parallel_island(problem.topology);
  for (const int tp : axis(options.tp, divisors_up_to(problem.model.heads, limit))) {
    if (tp < 1 || gpus % tp != 0) continue;
    for (const int pp : axis(options.pp, divisors_up_to(gpus / tp, problem.model.layers))) {
      if (pp < 1 || gpus / tp % pp != 0) continue;
      const int dp = gpus / tp / pp;
      if (!options.dp.empty() && std::find(options.dp.begin(), options.dp.end(), dp) == options.dp.end())
        continue;
      space.degrees.push_back({tp, pp, dp});
    }
  }
  space.sequence_parallel = axis(options.sequence_parallel, {false, true});
  space.zero =
      axis(options.zero, {ZeroStage::none, ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::weights});
  space.recompute = axis(options.recompute, {Recompute::none, Recompute::selective, Recompute::full});
  space.schedule =
      axis(options.schedule, {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved});
  const std::uint64_t independent =
      space.sequence_parallel.size() * space.zero.size() * space.recompute.size() * space.schedule.size();
  for (const Degrees& d : space.degrees)
    space.size += independent * chunk_counts(problem, options, d.pp).size() *
                  micro_batches(problem, options, d.dp).size();
  return space;
}

}  // namespace tpplan
