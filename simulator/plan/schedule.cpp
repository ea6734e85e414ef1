#include "simulator/plan/schedule.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <stdexcept>
#include <tuple>

namespace tpplan {
namespace {

std::vector<ScheduledOp> gpipe(int microbatches) {
  std::vector<ScheduledOp> ops;
  for (int i = 0; i < microbatches; ++i) ops.push_back({Pass::forward, 0, i});
  for (int i = microbatches; i-- > 0;) ops.push_back({Pass::backward, 0, i});
  return ops;
}

/// `warm_up` forwards, then one forward and one backward in turn, then the backwards that are left. `forward`
/// and `backward` give the k-th op of each kind.
template <class Forward, class Backward>
std::vector<ScheduledOp> one_forward_one_backward(int total, int warm_up, Forward forward,
                                                  Backward backward) {
  std::vector<ScheduledOp> ops;
  ops.reserve(static_cast<std::size_t>(2 * total));
  const int ahead = std::min(warm_up, total);
  for (int k = 0; k < ahead; ++k) ops.push_back(forward(k));
  for (int k = ahead; k < total; ++k) {
    ops.push_back(forward(k));
    ops.push_back(backward(k - ahead));
  }
  for (int k = total - ahead; k < total; ++k) ops.push_back(backward(k));
  return ops;
}

std::vector<ScheduledOp> rank_ops(ScheduleKind kind, int rank, int ranks, int chunks, int microbatches) {
  if (kind == ScheduleKind::gpipe) return gpipe(microbatches);
  if (kind == ScheduleKind::one_f_one_b)
    return one_forward_one_backward(
        microbatches, ranks - rank - 1,
        [](int k) {
          return ScheduledOp{Pass::forward, 0, k};
        },
        [](int k) {
          return ScheduledOp{Pass::backward, 0, k};
        });
  // Groups of `ranks` micro-batches pass through all chunks before the next group starts.
  const auto microbatch = [=](int k) { return k / (ranks * chunks) * ranks + k % ranks; };
  const auto chunk = [=](int k) { return k / ranks % chunks; };
  return one_forward_one_backward(
      microbatches * chunks, (ranks - rank - 1) * 2 + (chunks - 1) * ranks,
      [=](int k) {
        return ScheduledOp{Pass::forward, chunk(k), microbatch(k)};
      },
      [=](int k) {
        return ScheduledOp{Pass::backward, chunks - 1 - chunk(k), microbatch(k)};
      });
}

std::string name_of(int rank, const ScheduledOp& op) {
  return fmt::format("{} of micro-batch {}, chunk {} on rank {}",
                     op.pass == Pass::forward ? "forward" : "backward", op.microbatch, op.chunk, rank);
}

}  // namespace

Schedule make_schedule(ScheduleKind kind, int ranks, int chunks, int microbatches) {
  if (ranks < 1 || chunks < 1 || microbatches < 1)
    throw std::invalid_argument("a schedule needs at least one rank, one chunk and one micro-batch");
  if (kind != ScheduleKind::interleaved && chunks != 1)
    throw std::invalid_argument("only the interleaved schedule runs several chunks on a rank");
  if (kind == ScheduleKind::interleaved && microbatches % ranks != 0)
    throw std::invalid_argument(fmt::format(
        "interleaved schedule: {} micro-batches are not a multiple of {} ranks", microbatches, ranks));
  Schedule schedule{kind, ranks, chunks, microbatches, {}};
  for (int rank = 0; rank < ranks; ++rank)
    schedule.ops.push_back(rank_ops(kind, rank, ranks, chunks, microbatches));
  return schedule;
}

namespace {

/// Position of every op in its rank's order; -1 where it is missing.
class Positions {
 public:
  explicit Positions(const Schedule& schedule)
      : schedule_(schedule),
        at_(static_cast<std::size_t>(schedule.ranks) * static_cast<std::size_t>(schedule.chunks) *
                static_cast<std::size_t>(schedule.microbatches) * 2,
            -1) {}

  [[nodiscard]] bool inside(const ScheduledOp& op) const {
    return op.chunk >= 0 && op.chunk < schedule_.chunks && op.microbatch >= 0 &&
           op.microbatch < schedule_.microbatches;
  }
  [[nodiscard]] int& of(int rank, const ScheduledOp& op) {
    const auto index = ((static_cast<std::size_t>(rank) * static_cast<std::size_t>(schedule_.chunks) +
                         static_cast<std::size_t>(op.chunk)) *
                            static_cast<std::size_t>(schedule_.microbatches) +
                        static_cast<std::size_t>(op.microbatch)) *
                           2 +
                       static_cast<std::size_t>(op.pass);
    return at_[index];
  }

 private:
  const Schedule& schedule_;
  std::vector<int> at_;
};

std::optional<std::string> find_missing_or_repeated(const Schedule& schedule, Positions& positions) {
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto& ops = schedule.ops[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (!positions.inside(ops[i])) return fmt::format("{} does not exist", name_of(rank, ops[i]));
      int& position = positions.of(rank, ops[i]);
      if (position >= 0) return fmt::format("{} is listed twice", name_of(rank, ops[i]));
      position = static_cast<int>(i);
    }
    for (int chunk = 0; chunk < schedule.chunks; ++chunk)
      for (int microbatch = 0; microbatch < schedule.microbatches; ++microbatch)
        for (const Pass pass : {Pass::forward, Pass::backward})
          if (const ScheduledOp op{pass, chunk, microbatch}; positions.of(rank, op) < 0)
            return fmt::format("{} is missing", name_of(rank, op));
  }
  return std::nullopt;
}

/// The op whose result `op` on `rank` needs, and the rank that runs it. Nothing for the first forward.
std::optional<std::pair<int, ScheduledOp>> needed(const Schedule& schedule, int rank, const ScheduledOp& op) {
  const int stages = schedule.ranks * schedule.chunks;
  const int stage = op.chunk * schedule.ranks + rank;
  const int other = op.pass == Pass::forward ? stage - 1 : stage + 1;
  if (other < 0) return std::nullopt;
  if (other == stages) return std::pair{rank, ScheduledOp{Pass::forward, op.chunk, op.microbatch}};
  return std::pair{other % schedule.ranks, ScheduledOp{op.pass, other / schedule.ranks, op.microbatch}};
}

/// Runs the schedule with messages that arrive at once; what then still waits, waits for ever.
std::optional<std::string> find_cycle(const Schedule& schedule, Positions& positions) {
  std::vector<int> next(static_cast<std::size_t>(schedule.ranks), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < schedule.ranks; ++rank) {
      const auto& ops = schedule.ops[static_cast<std::size_t>(rank)];
      int& at = next[static_cast<std::size_t>(rank)];
      while (at < static_cast<int>(ops.size())) {
        const auto need = needed(schedule, rank, ops[static_cast<std::size_t>(at)]);
        if (need && positions.of(need->first, need->second) >= next[static_cast<std::size_t>(need->first)])
          break;
        ++at;
        moved = true;
      }
    }
  }
  std::string waits;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto& ops = schedule.ops[static_cast<std::size_t>(rank)];
    const int at = next[static_cast<std::size_t>(rank)];
    if (at == static_cast<int>(ops.size())) continue;
    const ScheduledOp& op = ops[static_cast<std::size_t>(at)];
    const auto need = needed(schedule, rank, op);
    waits += fmt::format("{}{} waits for {}", waits.empty() ? "deadlock: " : "; ", name_of(rank, op),
                         name_of(need->first, need->second));
  }
  if (waits.empty()) return std::nullopt;
  return waits;
}

/// On each channel (from, to, pass) the receiver must ask in the order in which the sender sends: messages of
/// one pass carry no name.
std::optional<std::string> find_crossed_messages(const Schedule& schedule, Positions& positions) {
  std::map<std::tuple<int, int, Pass>, int> last_sent;
  for (int rank = 0; rank < schedule.ranks; ++rank)
    for (const ScheduledOp& op : schedule.ops[static_cast<std::size_t>(rank)]) {
      const auto need = needed(schedule, rank, op);
      if (!need || need->first == rank) continue;
      const int sent = positions.of(need->first, need->second);
      const auto [found, first] = last_sent.try_emplace({need->first, rank, op.pass}, sent);
      if (!first && sent < found->second)
        return fmt::format("{} receives from rank {} out of the order in which it sends", name_of(rank, op),
                           need->first);
      found->second = sent;
    }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_deadlock(const Schedule& schedule) {
  Positions positions(schedule);
  if (auto problem = find_missing_or_repeated(schedule, positions)) return problem;
  if (auto problem = find_cycle(schedule, positions)) return problem;
  return find_crossed_messages(schedule, positions);
}

std::vector<int> peak_in_flight(const Schedule& schedule) {
  std::vector<int> peaks;
  for (const auto& ops : schedule.ops) {
    int in_flight = 0, peak = 0;
    for (const ScheduledOp& op : ops) {
      in_flight += op.pass == Pass::forward ? 1 : -1;
      peak = std::max(peak, in_flight);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace tpplan
