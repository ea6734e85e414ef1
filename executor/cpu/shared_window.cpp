#include "executor/cpu/shared_window.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstring>
#include <linux/futex.h>
#include <new>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/backend/host_reduce.hpp"
#include "executor/backend/waiting.hpp"

namespace tpplan {
namespace {

constexpr std::int64_t kSlot = 512 << 10, kWindow = 8 << 20;  // bytes, at most where members are few
constexpr std::size_t kLine = 128;  // two cache lines: processors fetch them in pairs

/// Looks again for a while before sleeping, where the core is the rank's own.
constexpr std::chrono::microseconds kLook{50};

std::int64_t round_up(std::int64_t n) { return (n + 63) / 64 * 64; }

/// Bytes of a rank's piece: at least 64 doubles for every member.
std::int64_t slot_bytes(int members) {
  return round_up(std::max<std::int64_t>(std::min(kSlot, kWindow / (2 * members)), 512 * members));
}

}  // namespace

/// Where everybody waits for the last one. In shared memory, hence the system call: the library's waits are
/// for threads of one process.
struct SharedWindow::Gate {
  alignas(kLine) std::atomic<std::uint32_t> arrived{0};
  alignas(kLine) std::atomic<std::uint32_t> round{0};
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

  void pass(std::uint32_t members) {
    const std::uint32_t before = round.load(std::memory_order_acquire);
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == members) {
      arrived.store(0, std::memory_order_relaxed);
      round.fetch_add(1, std::memory_order_release);
      ::syscall(SYS_futex, &round, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
      return;
    }
    if (!waits_asleep()) {
      const auto until = std::chrono::steady_clock::now() + kLook;
      while (round.load(std::memory_order_acquire) == before && std::chrono::steady_clock::now() < until) {
      }
    }
    while (round.load(std::memory_order_acquire) == before)
      ::syscall(SYS_futex, &round, FUTEX_WAIT, before, nullptr, nullptr, 0);
  }
};

std::unique_ptr<SharedWindow> SharedWindow::open(MPI_Comm comm) {
  int size = 1, on_host = 1;
  MPI_Comm_size(comm, &size);
  if (size == 1) return nullptr;
  MPI_Comm host = MPI_COMM_NULL;
  if (MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host) != MPI_SUCCESS) return nullptr;
  MPI_Comm_size(host, &on_host);
  MPI_Comm_free(&host);
  int together = on_host == size ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &together, 1, MPI_INT, MPI_MIN, comm);
  if (together == 0) return nullptr;
  std::unique_ptr<SharedWindow> window(new SharedWindow(comm));
  int opened = window->window_ != MPI_WIN_NULL ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &opened, 1, MPI_INT, MPI_MIN, comm);
  if (opened == 0) return nullptr;
  return window;
}

SharedWindow::SharedWindow(MPI_Comm comm) {
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  slot_bytes_ = slot_bytes(size_);
  const MPI_Aint bytes = rank_ == 0 ? static_cast<MPI_Aint>(sizeof(Gate)) + 2 * size_ * slot_bytes_ : 0;
  void* own = nullptr;
  if (MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, comm, &own, &window_) != MPI_SUCCESS) {
    window_ = MPI_WIN_NULL;
    return;
  }
  MPI_Aint of_first = 0;
  int unit = 1;
  void* base = nullptr;
  MPI_Win_shared_query(window_, 0, &of_first, &unit, &base);
  gate_ = rank_ == 0 ? new (base) Gate : static_cast<Gate*>(base);
  slots_ = static_cast<std::byte*>(base) + sizeof(Gate);
  MPI_Barrier(comm);  // the gate is there
}

SharedWindow::~SharedWindow() {
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended == 0 && window_ != MPI_WIN_NULL) MPI_Win_free(&window_);
}

void SharedWindow::barrier() { gate_->pass(static_cast<std::uint32_t>(size_)); }

std::byte* SharedWindow::slot(int member) const { return slots_ + (set_ * size_ + member) * slot_bytes_; }

template <class Work>
void SharedWindow::in_pieces(std::int64_t count, std::int64_t element_bytes, int parts, Work work) {
  const std::int64_t most = slot_bytes_ / parts / element_bytes / 64 * 64;
  for (std::int64_t first = 0; first < count; first += most) {
    work(first, std::min(most, count - first));
    next_set();
  }
}

void SharedWindow::all_reduce(Tensor x, ReduceOp op, const std::function<void(Tensor part)>& between) {
  const auto bytes = element_size(x.type);
  in_pieces(x.count(), bytes, 1, [&](std::int64_t first, std::int64_t count) {
    std::byte* const data = x.as<std::byte>() + first * bytes;
    std::memcpy(slot(rank_), data, static_cast<std::size_t>(count * bytes));
    barrier();
    // Each sums a part of all slots into its own, in whole cache lines.
    const std::int64_t part = round_up((count + size_ - 1) / size_);
    const auto begin = [&](int member) { return std::min(count, member * part); };
    std::vector<void*> in;
    for (int member = 0; member < size_; ++member) in.push_back(slot(member));
    void* const out[] = {slot(rank_)};
    reduce_elements(out, in, x.type, op, begin(rank_), begin(rank_ + 1));
    if (between && begin(rank_ + 1) > begin(rank_))
      between(vector(slot(rank_) + begin(rank_) * bytes, x.type, begin(rank_ + 1) - begin(rank_)));
    barrier();
    for (int member = 0; member < size_; ++member)
      std::memcpy(data + begin(member) * bytes, slot(member) + begin(member) * bytes,
                  static_cast<std::size_t>((begin(member + 1) - begin(member)) * bytes));
  });
}

void SharedWindow::reduce_scatter(Tensor out, Tensor in) {
  const auto bytes = element_size(in.type);
  in_pieces(out.count(), bytes, size_, [&](std::int64_t first, std::int64_t count) {
    for (int member = 0; member < size_; ++member)
      std::memcpy(slot(rank_) + member * count * bytes,
                  in.as<std::byte>() + (member * out.count() + first) * bytes,
                  static_cast<std::size_t>(count * bytes));
    barrier();
    std::vector<void*> parts;
    for (int member = 0; member < size_; ++member) parts.push_back(slot(member) + rank_ * count * bytes);
    void* const own[] = {out.as<std::byte>() + first * bytes};
    reduce_elements(own, parts, in.type, ReduceOp::sum, 0, count);
  });
}

void SharedWindow::all_gather(Tensor out, Tensor in) {
  const auto bytes = element_size(in.type);
  in_pieces(in.count(), bytes, 1, [&](std::int64_t first, std::int64_t count) {
    const auto size = static_cast<std::size_t>(count * bytes);
    std::memcpy(slot(rank_), in.as<std::byte>() + first * bytes, size);
    barrier();
    for (int member = 0; member < size_; ++member) {
      std::byte* const to = out.as<std::byte>() + (member * in.count() + first) * bytes;
      if (member != rank_ || in.data != out.as<std::byte>() + rank_ * in.bytes())
        std::memcpy(to, slot(member), size);
    }
  });
}

void SharedWindow::all_to_all(Tensor out, Tensor in) {
  const auto bytes = element_size(in.type);
  const std::int64_t part = in.count() / size_;
  in_pieces(part, bytes, size_, [&](std::int64_t first, std::int64_t count) {
    const auto size = static_cast<std::size_t>(count * bytes);
    for (int member = 0; member < size_; ++member)
      std::memcpy(slot(rank_) + member * count * bytes, in.as<std::byte>() + (member * part + first) * bytes,
                  size);
    barrier();
    for (int member = 0; member < size_; ++member)
      std::memcpy(out.as<std::byte>() + (member * part + first) * bytes, slot(member) + rank_ * count * bytes,
                  size);
  });
}

void SharedWindow::broadcast(Tensor x, int root) {
  const auto bytes = element_size(x.type);
  in_pieces(x.count(), bytes, 1, [&](std::int64_t first, std::int64_t count) {
    std::byte* const data = x.as<std::byte>() + first * bytes;
    const auto size = static_cast<std::size_t>(count * bytes);
    if (rank_ == root) std::memcpy(slot(root), data, size);
    barrier();
    if (rank_ != root) std::memcpy(data, slot(root), size);
  });
}

void SharedWindow::all_reduce(std::span<double> values, ReduceOp op) {
  in_pieces(static_cast<std::int64_t>(values.size()), static_cast<std::int64_t>(sizeof(double)), 1,
            [&](std::int64_t first, std::int64_t count) {
              double* const own = values.data() + first;
              std::memcpy(slot(rank_), own, static_cast<std::size_t>(count) * sizeof(double));
              barrier();
              for (std::int64_t i = 0; i < count; ++i) {
                const auto value = [&](int member) {
                  return reinterpret_cast<const double*>(slot(member))[i];
                };
                double sum = value(0);
                for (int member = 1; member < size_; ++member)
                  sum = op == ReduceOp::sum ? sum + value(member) : std::max(sum, value(member));
                own[i] = sum;
              }
            });
}

}  // namespace tpplan
