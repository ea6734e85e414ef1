#pragma once

#include <memory>

#include "executor/backend/backend.hpp"
#include "executor/cpu/gemm.hpp"

namespace tpplan {

/// Memory, matrix products and lanes on the CPU. The element-wise kernels are in kernels.cpp, compiled for
/// several instruction sets.
class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int threads);

  [[nodiscard]] void* allocate(std::int64_t bytes) override;
  void release(void* memory, std::int64_t bytes) override;
  void upload(void* to, const void* host, std::int64_t bytes) override;
  void download(void* host, const void* from, std::int64_t bytes) override;
  void synchronise() override {}
  [[nodiscard]] std::unique_ptr<Lane> make_lane(const std::string& name) override;
  void matmul(Tensor c, Tensor a, bool transpose_a, Tensor b, bool transpose_b, float beta) override;
  void linear(Tensor y, Tensor x, Tensor w, Tensor bias) override;

 private:
  void product(Tensor c, Tensor a, bool transpose_a, Tensor b, bool transpose_b, float beta, Tensor bias);

  Gemm gemm_;
};

/// A rank's CPU backend with the best kernels for this processor. It belongs to the calling thread, which
/// must make every call; kernels use `threads` OpenMP threads. Flushes subnormal numbers to zero on all of
/// them: they would slow fp32 products down threefold.
[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(int threads);

}  // namespace tpplan
