#include "executor/cpu/cpu_backend.hpp"

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <omp.h>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include "executor/backend/waiting.hpp"
#include "executor/cpu/kernels.hpp"
#include "simulator/document/document.hpp"

#if defined(__SSE__)
#include <immintrin.h>
#endif

namespace tpplan {
namespace {

constexpr std::int64_t kHugePage = 2 << 20;

void flush_subnormals() {
#if defined(__SSE__)
  _mm_setcsr(_mm_getcsr() | 0x8040U);  // FTZ and DAZ
#endif
}

/// A thread that runs what it is given, in order. The first exception stops it and is thrown to whoever
/// waits or submits.
class ThreadLane final : public Lane {
 public:
  ThreadLane() : thread_([this](const std::stop_token& stop) { loop(stop); }) {}

  Ticket submit(std::function<void()> work) override {
    const std::scoped_lock lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    queue_.push_back(std::move(work));
    changed_.notify_all();
    return ++submitted_;
  }
  void wait(Ticket ticket) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= ticket || error_; });
    if (done_ < ticket) std::rethrow_exception(error_);
  }
  [[nodiscard]] bool done(Ticket ticket) override {
    const std::scoped_lock lock(mutex_);
    if (done_ < ticket && error_) std::rethrow_exception(error_);
    return done_ >= ticket;
  }

 private:
  void loop(const std::stop_token& stop) {
    // One OpenMP thread: a region on this thread must not wake a second team beside the compute lane's.
    omp_set_num_threads(1);
    is_background_thread = true;
    flush_subnormals();
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return !queue_.empty(); })) {
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      try {
        work();
        lock.lock();
        ++done_;
      } catch (...) {
        lock.lock();
        error_ = std::current_exception();
        queue_.clear();
      }
      changed_.notify_all();
      if (error_) return;
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> queue_;
  Ticket submitted_ = 0, done_ = 0;
  std::exception_ptr error_;
  std::jthread thread_;
};

}  // namespace

CpuBackend::CpuBackend(int threads) {
  omp_set_num_threads(threads);
#pragma omp parallel
  flush_subnormals();
}

void* CpuBackend::allocate(std::int64_t bytes) {
  const std::int64_t alignment = bytes >= kHugePage ? kHugePage : 64;
  const auto size = static_cast<std::size_t>((bytes + alignment - 1) / alignment * alignment);
  void* memory = std::aligned_alloc(static_cast<std::size_t>(alignment), size == 0 ? 64 : size);
  if (memory == nullptr) throw SystemError(fmt::format("out of memory: {} more bytes were asked for", bytes));
  if (bytes >= kHugePage) madvise(memory, size, MADV_HUGEPAGE);  // a hint: failing does no harm
  return memory;
}

void CpuBackend::release(void* memory, std::int64_t) { std::free(memory); }

void CpuBackend::upload(void* to, const void* host, std::int64_t bytes) {
  std::memcpy(to, host, static_cast<std::size_t>(bytes));
}

void CpuBackend::download(void* host, const void* from, std::int64_t bytes) {
  std::memcpy(host, from, static_cast<std::size_t>(bytes));
}

std::unique_ptr<Lane> CpuBackend::make_lane(const std::string&) { return std::make_unique<ThreadLane>(); }

void CpuBackend::matmul(Tensor c, Tensor a, bool transpose_a, Tensor b, bool transpose_b, float beta) {
  product(c, a, transpose_a, b, transpose_b, beta, {});
}

void CpuBackend::linear(Tensor y, Tensor x, Tensor w, Tensor bias) { product(y, x, false, w, true, 0, bias); }

/// No CPU of today multiplies fp16 matrices with fp32 sums: they are widened first, which changes no value.
void CpuBackend::product(Tensor c, Tensor a, bool transpose_a, Tensor b, bool transpose_b, float beta,
                         Tensor bias) {
  if (a.type != DType::f16) return gemm_.run(c, a, transpose_a, b, transpose_b, beta, bias);
  std::vector<std::unique_ptr<float[]>> owned;
  const auto widened = [&](Tensor x) {
    if (x.data == nullptr || x.type != DType::f16) return x;
    owned.push_back(std::make_unique<float[]>(static_cast<std::size_t>(x.count())));
    const Tensor wide = matrix(owned.back().get(), DType::f32, x.rows, x.cols);
    copy(wide, x);
    return wide;
  };
  const Tensor wide = c.type == DType::f16 ? widened(c) : c;
  gemm_.run(wide, widened(a), transpose_a, widened(b), transpose_b, beta, widened(bias));
  if (c.type == DType::f16) copy(c, wide);
}

std::unique_ptr<Backend> make_cpu_backend(int threads) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return std::unique_ptr<Backend>(kernels_v4(threads));
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return std::unique_ptr<Backend>(kernels_v3(threads));
#endif
  return std::unique_ptr<Backend>(kernels_base(threads));
}

}  // namespace tpplan
