#include "executor/backend/communicator.hpp"

#include <cassert>
#include <cstring>
#include <fmt/format.h>

namespace tpplan {
namespace {

std::string ranks_text(const std::vector<int>& members) {
  return members.size() <= 8 ? fmt::format("{}", fmt::join(members, ", "))
                             : fmt::format("{}, {}, .. {}", members[0], members[1], members.back());
}

}  // namespace

OperationBoard::Entry Communicator::enter(const char* what, std::int64_t bytes, int peer) {
  if (peer >= 0)
    return board_.enter(
        fmt::format("{} rank {} of {} bytes in group {}", what, members_[static_cast<std::size_t>(peer)],
                    bytes, name_),
        {members_[static_cast<std::size_t>(rank_)], members_[static_cast<std::size_t>(peer)]});
  return board_.enter(
      fmt::format("{} of {} bytes in group {} (ranks {})", what, bytes, name_, ranks_text(members_)),
      members_);
}

void Communicator::all_reduce(Tensor x, ReduceOp op) {
  assert(x.contiguous());
  if (size() == 1) return;
  const auto entry = enter("all_reduce", x.bytes());
  do_all_reduce(x.flat(), op);
}

void Communicator::reduce_scatter(Tensor out, Tensor in) {
  assert(out.contiguous() && in.contiguous() && in.count() == out.count() * size() && in.type == out.type);
  const auto entry = enter("reduce_scatter", in.bytes());
  do_reduce_scatter(out.flat(), in.flat());
}

void Communicator::all_gather(Tensor out, Tensor in) {
  assert(out.contiguous() && in.contiguous() && out.count() == in.count() * size() && in.type == out.type);
  const auto entry = enter("all_gather", out.bytes());
  do_all_gather(out.flat(), in.flat());
}

void Communicator::all_to_all(Tensor out, Tensor in) {
  assert(out.contiguous() && in.contiguous() && out.count() == in.count() && in.count() % size() == 0);
  const auto entry = enter("all_to_all", out.bytes());
  do_all_to_all(out.flat(), in.flat());
}

void Communicator::broadcast(Tensor x, int root) {
  assert(x.contiguous());
  if (size() == 1) return;
  const auto entry = enter("broadcast", x.bytes());
  do_broadcast(x.flat(), root);
}

std::string Communicator::broadcast_text(const std::string& text, int root) {
  double length[] = {rank_ == root ? static_cast<double>(text.size()) : 0.0};
  all_reduce(length);
  // Its bytes travel as they are, in the place of numbers.
  std::vector<float> carrier((static_cast<std::size_t>(length[0]) + 3) / 4);
  if (rank_ == root) std::memcpy(carrier.data(), text.data(), text.size());
  broadcast(vector(carrier.data(), DType::f32, static_cast<std::int64_t>(carrier.size())), root);
  std::string received(static_cast<std::size_t>(length[0]), '\0');
  std::memcpy(received.data(), carrier.data(), received.size());
  return received;
}

void Communicator::send(Tensor x, int to, int tag) {
  assert(x.contiguous() && to != rank_);
  const auto entry = enter("send to", x.bytes(), to);
  do_send(x.flat(), to, tag);
}

void Communicator::receive(Tensor x, int from, int tag) {
  assert(x.contiguous() && from != rank_);
  const auto entry = enter("receive from", x.bytes(), from);
  do_receive(x.flat(), from, tag);
}

void Communicator::barrier() {
  if (size() == 1) return;
  const auto entry = enter("barrier", 0);
  do_barrier();
}

void Communicator::all_reduce(std::span<double> values, ReduceOp op) {
  if (size() == 1) return;
  const auto entry = enter("all_reduce", static_cast<std::int64_t>(values.size_bytes()));
  do_all_reduce_values(values, op);
}

}  // namespace tpplan
