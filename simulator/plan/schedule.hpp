#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simulator/plan/parallel_plan.hpp"

namespace tpplan {

enum class Pass : std::uint8_t { forward, backward };

/// One micro-batch through one stage. `chunk` counts the stages of this pipeline rank: stage = chunk * pp +
/// rank.
struct ScheduledOp {
  Pass pass = Pass::forward;
  int chunk = 0;
  int microbatch = 0;
  bool operator==(const ScheduledOp&) const = default;
};

/// The order in which each pipeline rank runs its work. Engine and executor both replay this object.
/// A forward of stage i needs the forward of stage i-1 of the same micro-batch; a backward of stage i needs
/// the backward of stage i+1, and, on the last stage, its own forward.
struct Schedule {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  int ranks = 1;                              // pipeline ranks (pp)
  int chunks = 1;                             // stages of a rank (vpp)
  int microbatches = 1;                       // m
  std::vector<std::vector<ScheduledOp>> ops;  // [rank], each 2 * chunks * microbatches long
  bool operator==(const Schedule&) const = default;
};

/// GPipe: all forwards, then all backwards in the reverse order. 1F1B: Narayanan et al. 2021, arXiv
/// 2104.04473, section 2.2. Interleaved 1F1B: section 2.2 there; microbatches must be a multiple of ranks
/// (std::invalid_argument otherwise).
[[nodiscard]] Schedule make_schedule(ScheduleKind kind, int ranks, int chunks, int microbatches);

/// Why a schedule can never finish or would mix up messages: a cycle of waits, a missing or repeated op, or a
/// channel on which the sender's order differs from the receiver's. The text names ranks and ops. Nothing
/// when it is sound.
[[nodiscard]] std::optional<std::string> find_deadlock(const Schedule& schedule);

/// The most micro-batches whose forward has run and whose backward has not, per rank, counted in chunks: what
/// activation memory multiplies. Shape [rank].
[[nodiscard]] std::vector<int> peak_in_flight(const Schedule& schedule);

}  // namespace tpplan
