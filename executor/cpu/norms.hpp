#pragma once

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

/// dx = (g - mean(g) - n mean(g n)) / deviation with g = dy * weight and n the normalised x; without mean(g)
/// for RMSNorm.
template <class T>
inline void norm_input_gradient(NormKind kind, Tensor dx, Tensor residual, Tensor dy, Tensor x,
                                Tensor statistics, Tensor weight) {
  const T* w = weight.as<T>();
  const auto n = static_cast<float>(x.cols);
  const float *means = row<float>(statistics, 0), *inverses = row<float>(statistics, 1);
  for_rows(x.rows, 4 * x.cols, [&](std::int64_t r) {
    const T *in = row<T>(x, r), *gradient = row<T>(dy, r);
    T* out = row<T>(dx, r);
    const float mean = means[r], inverse = inverses[r];
    float sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const float g = to_float(gradient[j]) * to_float(w[j]);
      sum += g;
      product += g * (to_float(in[j]) - mean) * inverse;
    }
    sum = kind == NormKind::layer_norm ? sum / n : 0;
    product /= n;
    const T* base = residual.data != nullptr ? row<T>(residual, r) : nullptr;
    if (base != nullptr)
#pragma omp simd
      for (std::int64_t j = 0; j < x.cols; ++j)
        out[j] = from_float<T>(to_float(base[j]) + inverse * (to_float(gradient[j]) * to_float(w[j]) - sum -
                                                              (to_float(in[j]) - mean) * inverse * product));
    else
#pragma omp simd
      for (std::int64_t j = 0; j < x.cols; ++j)
        out[j] = from_float<T>(inverse * (to_float(gradient[j]) * to_float(w[j]) - sum -
                                          (to_float(in[j]) - mean) * inverse * product));
  });
}

template <class T>
inline void norm_weight_gradient(NormKind, Tensor weight_gradient, Tensor bias_gradient, Tensor dy, Tensor x,
                                 Tensor statistics) {
  constexpr std::int64_t kColumnsOfThread = 128;
  float* dw = weight_gradient.as<float>();
  float* db = bias_gradient.as<float>();
  const float *means = row<float>(statistics, 0), *inverses = row<float>(statistics, 1);
  for_pieces(x.cols, kColumnsOfThread, x.rows, [&](std::int64_t first, std::int64_t last) {
    float weights[kColumnsOfThread] = {}, biases[kColumnsOfThread] = {};
    for (std::int64_t r = 0; r < x.rows; ++r) {
      const T *in = row<T>(x, r) + first, *gradient = row<T>(dy, r) + first;
      const float mean = means[r], inverse = inverses[r];
#pragma omp simd
      for (std::int64_t j = 0; j < last - first; ++j) {
        const float g = to_float(gradient[j]);
        weights[j] += g * (to_float(in[j]) - mean) * inverse;
        biases[j] += g;
      }
    }
    for (std::int64_t j = first; j < last; ++j) {
      dw[j] += weights[j - first];
      if (db != nullptr) db[j] += biases[j - first];
    }
  });
}

}  // namespace
}  // namespace tpplan
