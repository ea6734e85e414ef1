#pragma once

#include <memory>

#include "executor/backend/tensor.hpp"

namespace tpplan {

/// Matrix products through oneDNN. Primitives are kept by shape; the library's own cache makes them cheap to
/// find again on other threads. Not for use inside a parallel region: a primitive knows the number of threads
/// that it was made for.
class Gemm {
 public:
  Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;
  ~Gemm();

  /// c (M, N) = op(a) op(b) + bias + beta c; beta 0 or 1; a and b both fp32 or both bf16, c either; bias (N)
  /// or no data. Strides are free.
  void run(Tensor c, Tensor a, bool transpose_a, Tensor b, bool transpose_b, float beta, Tensor bias);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tpplan
