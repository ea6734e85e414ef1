#include "executor/backend/rank_threads.hpp"

#include <exception>
#include <fmt/format.h>
#include <memory>
#include <thread>
#include <vector>

#include "executor/backend/in_process.hpp"
#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

/// Which operation waits, and what those members of its group do that are not in it.
std::string stuck_text(int rank, Seconds limit, const OperationBoard::Waiting& waiting,
                       const std::vector<std::unique_ptr<OperationBoard>>& boards) {
  std::string text = fmt::format("{}: rank {} has waited for {:.3g} s in {}", waiting.label, rank,
                                 limit.value(), waiting.what);
  for (const int member : waiting.members) {
    const auto other = boards[static_cast<std::size_t>(member)]->oldest();
    if (member == rank || (other && other->what == waiting.what && other->label == waiting.label)) continue;
    text += other ? fmt::format("; rank {} is in {}: {}", member, other->label, other->what)
                  : fmt::format("; rank {} is missing", member);
  }
  return text;
}

}  // namespace

void run_rank_threads(int ranks, Seconds limit, const std::function<void(Communicator& world)>& body) {
  InProcessWorld world(ranks);
  const auto count = static_cast<std::size_t>(ranks);
  std::vector<std::exception_ptr> errors(count);
  std::vector<std::unique_ptr<OperationBoard>> boards;
  for (int r = 0; r < ranks; ++r) boards.push_back(std::make_unique<OperationBoard>());
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        OperationBoard& board = *boards[static_cast<std::size_t>(r)];
        const Watchdog watchdog(board, limit, [&, r](const OperationBoard::Waiting& waiting) {
          world.abort(stuck_text(r, limit, waiting, boards));
        });
        try {
          const auto own = world.connect(r, board);
          body(*own);
        } catch (const Aborted&) {
          errors[static_cast<std::size_t>(r)] = std::current_exception();
        } catch (const std::exception& error) {
          errors[static_cast<std::size_t>(r)] = std::current_exception();
          world.abort(fmt::format("rank {}: {}", r, error.what()));
        }
      });
  }
  std::exception_ptr aborted;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const Aborted&) {
      aborted = error;
    }  // the cause itself goes on to the caller
  }
  if (!aborted) return;
  try {
    std::rethrow_exception(aborted);
  } catch (const Aborted& error) {
    throw SystemError(error.what());
  }
}

}  // namespace tpplan
