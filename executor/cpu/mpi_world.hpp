#pragma once

#include <memory>
#include <string>

#include "executor/backend/communicator.hpp"

namespace tpplan {

/// This process as a rank of an MPI job. MPI is set up by the constructor and shut down by the destructor.
class MpiWorld {
 public:
  /// Throws SystemError when MPI cannot serve several threads, or when this program was built without MPI.
  MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;
  ~MpiWorld();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int ranks() const;
  /// "Open MPI v4.1.4"
  [[nodiscard]] std::string library() const;
  /// Ranks on this host.
  [[nodiscard]] int ranks_on_host() const;
  /// Ranks that run on the same kernel: those of other containers of this machine too.
  [[nodiscard]] int ranks_on_machine() const;
  [[nodiscard]] std::unique_ptr<Communicator> connect(OperationBoard& board);
  /// Ends all ranks of the job with this exit code.
  [[noreturn]] void abort(int code);

  /// Whether mpirun or srun started this process.
  [[nodiscard]] static bool is_launched();
  /// Whether this program was built with MPI.
  [[nodiscard]] static bool is_available();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tpplan
