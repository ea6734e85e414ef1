#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/backend/operation_board.hpp"
#include "executor/backend/tensor.hpp"

namespace tpplan {

enum class ReduceOp : std::uint8_t { sum, max };

/// A group of ranks that exchange tensors. All members call the same operations in the same order, one at a
/// time for each object (a send and a receive may run side by side); calls return when the caller's memory
/// may be used again. Sums are the same bits on every member. Tensors must be contiguous; sums of 16-bit
/// formats are taken in fp32.
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// World ranks of the members, in the order of their ranks here.
  [[nodiscard]] const std::vector<int>& members() const { return members_; }

  void all_reduce(Tensor x, ReduceOp op = ReduceOp::sum);
  /// out (n elements) = this rank's part of the sum of all `in` (size * n); it may be that part of its `in`.
  void reduce_scatter(Tensor out, Tensor in);
  /// out (size * n) = the `in` (n) of all ranks in their order; `in` may be its own part of `out`.
  void all_gather(Tensor out, Tensor in);
  /// Part r of `in` goes to rank r; part r of `out` comes from it.
  void all_to_all(Tensor out, Tensor in);
  void broadcast(Tensor x, int root);
  /// Messages between two ranks arrive in the order in which they were sent, for each tag.
  void send(Tensor x, int to, int tag);
  void receive(Tensor x, int from, int tag);
  void barrier();
  /// Values in the host's memory.
  void all_reduce(std::span<double> values, ReduceOp op = ReduceOp::sum);

  /// The text of rank `root`, on every member.
  [[nodiscard]] std::string broadcast_text(const std::string& text, int root);

  /// The group of some members of this one, given by their ranks here. Called by exactly those, in one global
  /// order.
  [[nodiscard]] virtual std::unique_ptr<Communicator> subgroup(std::span<const int> ranks,
                                                               const std::string& name) = 0;

 protected:
  Communicator(int rank, std::vector<int> members, std::string name, OperationBoard& board)
      : rank_(rank), members_(std::move(members)), name_(std::move(name)), board_(board) {}
  [[nodiscard]] OperationBoard& board() { return board_; }

  virtual void do_all_reduce(Tensor x, ReduceOp op) = 0;
  virtual void do_reduce_scatter(Tensor out, Tensor in) = 0;
  virtual void do_all_gather(Tensor out, Tensor in) = 0;
  virtual void do_all_to_all(Tensor out, Tensor in) = 0;
  virtual void do_broadcast(Tensor x, int root) = 0;
  virtual void do_send(Tensor x, int to, int tag) = 0;
  virtual void do_receive(Tensor x, int from, int tag) = 0;
  virtual void do_barrier() = 0;
  virtual void do_all_reduce_values(std::span<double> values, ReduceOp op) = 0;

 private:
  [[nodiscard]] OperationBoard::Entry enter(const char* what, std::int64_t bytes, int peer = -1);

  int rank_;
  std::vector<int> members_;
  std::string name_;
  OperationBoard& board_;
};

}  // namespace tpplan
