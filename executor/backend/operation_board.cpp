#include "executor/backend/operation_board.hpp"

#include <condition_variable>

namespace tpplan {
namespace {
thread_local std::string current_label;
}

TaskLabel::TaskLabel(std::string label) : before_(std::move(current_label)) {
  current_label = std::move(label);
}
TaskLabel::~TaskLabel() { current_label = std::move(before_); }
const std::string& TaskLabel::current() { return current_label; }

OperationBoard::Entry OperationBoard::enter(std::string what, std::vector<int> members) {
  const std::scoped_lock lock(mutex_);
  operations_.push_back(
      {std::move(what), TaskLabel::current(), std::move(members), std::chrono::steady_clock::now()});
  return {*this, std::prev(operations_.end())};
}

void OperationBoard::leave(std::list<Operation>::iterator at) {
  const std::scoped_lock lock(mutex_);
  operations_.erase(at);
}

std::optional<OperationBoard::Waiting> OperationBoard::oldest() const {
  const std::scoped_lock lock(mutex_);
  if (operations_.empty()) return std::nullopt;
  const Operation& first = operations_.front();
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - first.start;
  return Waiting{first.what, first.label, first.members, Seconds{since.count()}};
}

Watchdog::Watchdog(const OperationBoard& board, Seconds limit,
                   std::function<void(const OperationBoard::Waiting&)> stuck)
    : thread_([&board, limit, stuck = std::move(stuck)](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any wake;
        std::unique_lock lock(mutex);
        const auto period = std::chrono::milliseconds(100);
        while (!wake.wait_for(lock, stop, period, [] { return false; }) && !stop.stop_requested()) {
          const auto waiting = board.oldest();
          if (!waiting || waiting->since < limit) continue;
          stuck(*waiting);
          return;
        }
      }) {}

}  // namespace tpplan
