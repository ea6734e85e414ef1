#pragma once

#include "executor/cpu/vector_math.hpp"

// Softmax cross-entropy over a vocabulary of which each tensor-parallel rank holds some columns. Included by
// kernels.cpp alone.

namespace tpplan {
namespace {

template <class T>
inline void logit_statistics(Tensor maximum, Tensor sum, Tensor picked, Tensor logits,
                             const std::int32_t* targets, std::int64_t first, std::int64_t valid) {
  for_rows(logits.rows, logits.cols, [&](std::int64_t r) {
    const T* line = row<T>(logits, r);
    float top = -3.4e38F;
#pragma omp simd reduction(max : top)
    for (std::int64_t j = 0; j < valid; ++j) {
      const float x = to_float(line[j]);
      top = top > x ? top : x;
    }
    float total = 0;
#pragma omp simd reduction(+ : total)
    for (std::int64_t j = 0; j < valid; ++j) total += fast_exp(to_float(line[j]) - top);
    const std::int64_t target = targets[r] - first;
    maximum.as<float>()[r] = top;
    sum.as<float>()[r] = total;
    picked.as<float>()[r] = target >= 0 && target < valid ? to_float(line[target]) : 0.0F;
  });
}

inline void rescale(Tensor sum, Tensor own, Tensor all) {
  for (std::int64_t r = 0; r < sum.cols; ++r)
    sum.as<float>()[r] *= fast_exp(own.as<float>()[r] - all.as<float>()[r]);
}

template <class T>
inline void logit_gradient(Tensor logits, Tensor maximum, Tensor sum, const std::int32_t* targets,
                           std::int64_t first, std::int64_t valid, float scale) {
  for_rows(logits.rows, logits.cols, [&](std::int64_t r) {
    T* line = row<T>(logits, r);
    const float top = maximum.as<float>()[r];
    const float factor = scale / sum.as<float>()[r];
    const std::int64_t target = targets[r] - first;
    const bool own = target >= 0 && target < valid;
    const float at_target = own ? fast_exp(to_float(line[target]) - top) * factor - scale : 0.0F;
#pragma omp simd
    for (std::int64_t j = 0; j < valid; ++j)
      line[j] = from_float<T>(fast_exp(to_float(line[j]) - top) * factor);
    for (std::int64_t j = valid; j < logits.cols; ++j) line[j] = from_float<T>(0.0F);
    if (own) line[target] = from_float<T>(at_target);
  });
}

inline double sum_of_losses(Tensor maximum, Tensor sum, Tensor picked) {
  double total = 0;
  for (std::int64_t r = 0; r < sum.cols; ++r)
    total +=
        static_cast<double>(std::log(sum.as<float>()[r]) + maximum.as<float>()[r] - picked.as<float>()[r]);
  return total;
}

}  // namespace
}  // namespace tpplan
