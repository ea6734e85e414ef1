#pragma once

#include <omp.h>

#include "executor/backend/backend.hpp"
#include "executor/cpu/vector_math.hpp"

// LayerNorm (Ba et al. 2016, arXiv 1607.06450) and RMSNorm (Zhang & Sennrich 2019, arXiv 1910.07467) over
// rows: y = (x - mean) / deviation * weight + bias, the mean being 0 for RMSNorm. Included by kernels.cpp
// alone.

namespace tpplan {
namespace {

template <class T>
inline void norm_forward(NormKind kind, Tensor y, Tensor statistics, Tensor x, Tensor weight, Tensor bias,
                         float epsilon) {
  const T *w = weight.as<T>(), *b = bias.as<T>();
  const auto n = static_cast<float>(x.cols);
  float *means = row<float>(statistics, 0), *inverses = row<float>(statistics, 1);
  for_rows(x.rows, 3 * x.cols, [&](std::int64_t r) {
    const T* in = row<T>(x, r);
    T* out = row<T>(y, r);
    float mean = 0;
    if (kind == NormKind::layer_norm) {
#pragma omp simd reduction(+ : mean)
      for (std::int64_t j = 0; j < x.cols; ++j) mean += to_float(in[j]);
      mean /= n;
    }
    float variance = 0;
#pragma omp simd reduction(+ : variance)
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const float d = to_float(in[j]) - mean;
      variance += d * d;
    }
    const float inverse = 1.0F / std::sqrt(variance / n + epsilon);
    means[r] = mean;
    inverses[r] = inverse;
    if (b != nullptr)
#pragma omp simd
      for (std::int64_t j = 0; j < x.cols; ++j)
        out[j] = from_float<T>((to_float(in[j]) - mean) * inverse * to_float(w[j]) + to_float(b[j]));
    else
#pragma omp simd
      for (std::int64_t j = 0; j < x.cols; ++j)
        out[j] = from_float<T>((to_float(in[j]) - mean) * inverse * to_float(w[j]));
  });
}

/// One row of the backward: dx = (g - mean(g) - n mean(g n)) / deviation with g = dy * weight and n the
/// normalised x; without mean(g) for RMSNorm. Adds dy n to `dw` and dy to `db`.
template <class T>
[[gnu::always_inline]] inline void norm_backward_row(NormKind kind, std::int64_t cols, T* out, const T* base,
                                                     const T* gradient, const T* in, const T* w, float mean,
                                                     float inverse, float* dw, float* db) {
  float sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
  for (std::int64_t j = 0; j < cols; ++j) {
    const float dy = to_float(gradient[j]), n = (to_float(in[j]) - mean) * inverse, g = dy * to_float(w[j]);
    sum += g;
    product += g * n;
    dw[j] += dy * n;
    db[j] += dy;
  }
  const float centre = kind == NormKind::layer_norm ? sum / static_cast<float>(cols) : 0;
  product /= static_cast<float>(cols);
  if (base != nullptr)
#pragma omp simd
    for (std::int64_t j = 0; j < cols; ++j)
      out[j] = from_float<T>(to_float(base[j]) + inverse * (to_float(gradient[j]) * to_float(w[j]) - centre -
                                                            (to_float(in[j]) - mean) * inverse * product));
  else
#pragma omp simd
    for (std::int64_t j = 0; j < cols; ++j)
      out[j] = from_float<T>(inverse * (to_float(gradient[j]) * to_float(w[j]) - centre -
                                        (to_float(in[j]) - mean) * inverse * product));
}

/// Every thread goes through rows of its own and sums their weight gradients apart; the sums of the threads
/// are added in their order, so that results depend on the number of threads alone.
template <class T>
inline void norm_rows_backward(NormKind kind, Tensor dx, Tensor weight_gradient, Tensor bias_gradient,
                               Tensor residual, Tensor dy, Tensor x, Tensor statistics, Tensor weight) {
  const T* w = weight.as<T>();
  const float *means = row<float>(statistics, 0), *inverses = row<float>(statistics, 1);
  const std::int64_t cols = x.cols;
  static thread_local Scratch scratch;
  const int threads = x.rows * cols > 4096 ? omp_get_max_threads() : 1;
  float* const sums = scratch.get(threads * 2 * cols);
  for (std::int64_t i = 0; i < threads * 2 * cols; ++i) sums[i] = 0;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t r = 0; r < x.rows; ++r) {
    float* const dw = sums + static_cast<std::int64_t>(omp_get_thread_num()) * 2 * cols;
    norm_backward_row<T>(kind, cols, row<T>(dx, r), residual.data != nullptr ? row<T>(residual, r) : nullptr,
                         row<T>(dy, r), row<T>(x, r), w, means[r], inverses[r], dw, dw + cols);
  }
  float* const dw = weight_gradient.as<float>();
  float* const db = bias_gradient.as<float>();
  for (int thread = 0; thread < threads; ++thread) {
    const float* const part = sums + static_cast<std::int64_t>(thread) * 2 * cols;
    for (std::int64_t j = 0; j < cols; ++j) dw[j] += part[j];
    if (db != nullptr)
      for (std::int64_t j = 0; j < cols; ++j) db[j] += part[cols + j];
  }
}

}  // namespace
}  // namespace tpplan
