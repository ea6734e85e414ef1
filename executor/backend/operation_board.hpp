#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "simulator/units/units.hpp"

namespace tpplan {

/// The label of the task that the calling thread works on, for messages about what hangs.
class TaskLabel {
 public:
  explicit TaskLabel(std::string label);
  TaskLabel(const TaskLabel&) = delete;
  TaskLabel& operator=(const TaskLabel&) = delete;
  ~TaskLabel();
  [[nodiscard]] static const std::string& current();

 private:
  std::string before_;
};

/// What the threads of one rank are waiting for in communicators.
class OperationBoard {
  struct Operation {
    std::string what, label;
    std::vector<int> members;
    std::chrono::steady_clock::time_point start;
  };

 public:
  /// Stands on the board while it lives.
  class Entry {
   public:
    Entry(OperationBoard& board, std::list<Operation>::iterator at) : board_(&board), at_(at) {}
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() { board_->leave(at_); }

   private:
    OperationBoard* board_;
    std::list<Operation>::iterator at_;
  };

  /// `members`: world ranks that must take part.
  [[nodiscard]] Entry enter(std::string what, std::vector<int> members);

  struct Waiting {
    std::string what;   // "all_reduce of 4096 bytes in group data (ranks 0, 2)"
    std::string label;  // of the task, "s0.mb1.bwd"
    std::vector<int> members;
    Seconds since;
  };
  /// The operation that has been going on for longest.
  [[nodiscard]] std::optional<Waiting> oldest() const;

 private:
  void leave(std::list<Operation>::iterator at);

  mutable std::mutex mutex_;
  std::list<Operation> operations_;
};

/// Calls `stuck` once when an operation on the board has gone on for longer than the limit.
class Watchdog {
 public:
  Watchdog(const OperationBoard& board, Seconds limit,
           std::function<void(const OperationBoard::Waiting&)> stuck);

 private:
  std::jthread thread_;
};

}  // namespace tpplan
