#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "executor/backend/communicator.hpp"

namespace tpplan {

/// A communicator was shut down because another rank failed.
class Aborted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Ranks that are threads of this process and exchange data through its memory. Sends wait for their
/// receiver, as long messages do in MPI, so that a wrong order hangs here too.
class InProcessWorld {
 public:
  explicit InProcessWorld(int ranks);
  ~InProcessWorld();
  InProcessWorld(const InProcessWorld&) = delete;
  InProcessWorld& operator=(const InProcessWorld&) = delete;

  /// The world's communicator of one rank; called once by each rank's thread. `board` must outlive it.
  [[nodiscard]] std::unique_ptr<Communicator> connect(int rank, OperationBoard& board);
  /// Every waiting call, and every later one, throws Aborted with this reason. The first reason stays.
  void abort(const std::string& reason);

  class Group;

 private:
  friend class InProcessCommunicator;
  [[nodiscard]] std::shared_ptr<Group> group(const std::vector<int>& members, const std::string& name);

  int ranks_;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::vector<int>>, std::shared_ptr<Group>> groups_;
  std::string abort_reason_;
  bool aborted_ = false;
};

}  // namespace tpplan
