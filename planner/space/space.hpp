#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "planner/search/planner.hpp"

namespace tpplan {

/// Degrees that share a cluster: tp * pp * dp = GPUs.
struct Degrees {
  int tp = 1, pp = 1, dp = 1;
  bool operator==(const Degrees&) const = default;
};

/// The combinations to search, as lists of values for each axis. The chunks of a pipeline rank (vpp) depend
/// on pp, the micro-batches on dp.
struct Space {
  std::vector<Degrees> degrees;
  std::vector<bool> sequence_parallel;
  std::vector<ZeroStage> zero;
  std::vector<Recompute> recompute;
  std::vector<ScheduleKind> schedule;

  /// Combinations in all, legal or not.
  std::uint64_t size = 0;
};

/// tp: divisors of the heads up to the NVLink domain (or Problem::max_tp); pp: every divisor of the rest up
/// to the layers; dp: what remains. Values fixed in the options replace an axis.
[[nodiscard]] Space make_space(const Problem& problem, const SearchOptions& options);

/// Chunks of a pipeline rank: 1 ... layers / pp, or the fixed values among them.
[[nodiscard]] std::vector<int> chunk_counts(const Problem& problem, const SearchOptions& options, int pp);

/// 1, 2, 4 ... up to batch / dp, or the fixed values.
[[nodiscard]] std::vector<int> micro_batches(const Problem& problem, const SearchOptions& options, int dp);

}  // namespace tpplan
