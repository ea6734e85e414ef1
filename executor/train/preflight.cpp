#include "executor/train/preflight.hpp"

#include <fmt/format.h>
#include <vector>

#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

constexpr std::int64_t kElements = 1 << 15;  // longer than a message that MPI sends without a handshake

/// Whole numbers below 2^11, so that sums over many ranks stay exact.
float value_of(int rank, std::int64_t element) { return static_cast<float>((rank * 31 + element) % 2048); }

class Exchange {
 public:
  explicit Exchange(RankContext& rank)
      : rank_(rank),
        buffer_(rank.arena.matrix(DType::f32, 1, kElements, MemoryCategory::workspace)),
        host_(kElements) {}

  void check_sum(Communicator& group) {
    const TaskLabel label("preflight");
    fill(group.members()[static_cast<std::size_t>(group.rank())]);
    group.all_reduce(buffer_.tensor);
    download();
    for (std::int64_t i = 0; i < kElements; ++i) {
      float sum = 0;
      for (const int member : group.members()) sum += value_of(member, i);
      if (host_[static_cast<std::size_t>(i)] != sum)
        throw SystemError(fmt::format("preflight: the sum over group {} of rank {} is wrong at element {}",
                                      group.name(), rank_.world.rank(), i));
    }
  }

  /// Round the ring: even ranks send first, so that nobody waits for a message that waits for him.
  void check_ring(Communicator& group, int step) {
    const TaskLabel label("preflight");
    const int to = (group.rank() + step + group.size()) % group.size();
    const int from = (group.rank() - step + group.size()) % group.size();
    if (group.rank() % 2 == 0) {
      send(group, to);
      receive(group, from);
    } else {
      receive(group, from);
      send(group, to);
    }
  }

 private:
  void fill(int rank) {
    for (std::int64_t i = 0; i < kElements; ++i) host_[static_cast<std::size_t>(i)] = value_of(rank, i);
    rank_.backend.upload(buffer_.tensor.data, host_.data(), kElements * 4);
  }
  void download() {
    rank_.backend.synchronise();
    rank_.backend.download(host_.data(), buffer_.tensor.data, kElements * 4);
  }
  void send(Communicator& group, int to) {
    fill(rank_.world.rank());
    group.send(buffer_.tensor, to, 1000);
  }
  void receive(Communicator& group, int from) {
    group.receive(buffer_.tensor, from, 1000);
    download();
    const int sender = group.members()[static_cast<std::size_t>(from)];
    for (std::int64_t i = 0; i < kElements; ++i)
      if (host_[static_cast<std::size_t>(i)] != value_of(sender, i))
        throw SystemError(fmt::format("preflight: rank {} received wrong data from rank {} at element {}",
                                      rank_.world.rank(), sender, i));
  }

  RankContext& rank_;
  OwnedTensor buffer_;
  std::vector<float> host_;
};

}  // namespace

void preflight(RankContext& rank) {
  Exchange exchange(rank);
  exchange.check_sum(rank.world);
  for (const auto& group : {&rank.tensor, &rank.data, &rank.kv_copies, &rank.ends})
    if (*group) exchange.check_sum(**group);
  if (rank.forward) {
    exchange.check_ring(*rank.forward, 1);
    exchange.check_ring(*rank.backward, -1);
  }
}

}  // namespace tpplan
