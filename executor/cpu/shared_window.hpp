#pragma once

#include <functional>
#include <memory>
#include <mpi.h>
#include <span>

#include "executor/backend/communicator.hpp"

namespace tpplan {

/// Memory that the ranks of a group share because they run on one host, and collectives through it: every
/// rank puts its tensor there, and each sums its part of all of them. Several times as fast as messages,
/// which are copied by the sender and the receiver and summed by both; and whoever waits sleeps in the kernel
/// until the last one comes. Tensors go in pieces of half a megabyte a rank, which stay in the processor's
/// cache.
class SharedWindow {
 public:
  /// Called by all members of `comm`. Nothing when they are not all on one host, or it has no shared memory
  /// left.
  [[nodiscard]] static std::unique_ptr<SharedWindow> open(MPI_Comm comm);
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;
  ~SharedWindow();

  // As in Communicator. `between` gets the part of each piece that this rank has summed, and may go on to sum
  // it with that of other hosts.
  void all_reduce(Tensor x, ReduceOp op, const std::function<void(Tensor part)>& between = {});
  void reduce_scatter(Tensor out, Tensor in);
  void all_gather(Tensor out, Tensor in);
  void all_to_all(Tensor out, Tensor in);
  void broadcast(Tensor x, int root);
  void all_reduce(std::span<double> values, ReduceOp op);
  void barrier();

 private:
  struct Gate;
  explicit SharedWindow(MPI_Comm comm);
  /// Where `member` puts its piece. Pieces alternate between two sets, so that a rank may fill the next while
  /// others read this one.
  [[nodiscard]] std::byte* slot(int member) const;
  void next_set() { set_ = 1 - set_; }
  /// Calls work(first, count) for pieces of `count` elements that fit a slot `parts` times side by side.
  template <class Work>
  void in_pieces(std::int64_t count, std::int64_t element_bytes, int parts, Work work);

  int rank_ = 0, size_ = 1, set_ = 0;
  std::int64_t slot_bytes_ = 0;
  MPI_Win window_ = MPI_WIN_NULL;
  Gate* gate_ = nullptr;
  std::byte* slots_ = nullptr;
};

}  // namespace tpplan
