#pragma once

#include "executor/backend/backend.hpp"
#include "executor/cpu/vector_math.hpp"

// Element-wise kernels; each reads and writes its operands once. Included by kernels.cpp alone.

namespace tpplan {
namespace {

template <class T>
inline void fill_with(Tensor x, float value) {
  for_rows(x.rows, x.cols, [&](std::int64_t r) {
    T* line = row<T>(x, r);
    for (std::int64_t j = 0; j < x.cols; ++j) line[j] = from_float<T>(value);
  });
}

/// Calls f(row, first, last) over all elements; long rows are cut, so that vectors run on several threads.
template <class F>
inline void for_elements(Tensor x, F f) {
  constexpr std::int64_t kPiece = 8192;
  if (x.rows == 1)
    for_pieces(x.cols, kPiece, 1, [&](std::int64_t first, std::int64_t last) { f(0, first, last); });
  else
    for_rows(x.rows, x.cols, [&](std::int64_t r) { f(r, 0, x.cols); });
}

template <class T, class U>
inline void convert(Tensor to, Tensor from) {
  for_elements(to, [&](std::int64_t r, std::int64_t first, std::int64_t last) {
    T* out = row<T>(to, r);
    const U* in = row<U>(from, r);
    for (std::int64_t j = first; j < last; ++j) out[j] = from_float<T>(to_float(in[j]));
  });
}

template <class T, class U>
inline void add_to(Tensor to, Tensor from) {
  for_elements(to, [&](std::int64_t r, std::int64_t first, std::int64_t last) {
    T* out = row<T>(to, r);
    const U* in = row<U>(from, r);
#pragma omp simd
    for (std::int64_t j = first; j < last; ++j) out[j] = from_float<T>(to_float(out[j]) + to_float(in[j]));
  });
}

template <class T>
inline void add_bias_to(Tensor x, Tensor bias) {
  const T* b = bias.as<T>();
  for_rows(x.rows, x.cols, [&](std::int64_t r) {
    T* line = row<T>(x, r);
#pragma omp simd
    for (std::int64_t j = 0; j < x.cols; ++j) line[j] = from_float<T>(to_float(line[j]) + to_float(b[j]));
  });
}

/// Columns that one thread sums at a time: their sums stay in the first-level cache.
constexpr std::int64_t kColumns = 256;

template <class T>
inline void column_sums(Tensor gradient, Tensor dy) {
  float* out = gradient.as<float>();
  for_pieces(dy.cols, kColumns, dy.rows, [&](std::int64_t first, std::int64_t last) {
    float sums[kColumns] = {};
    for (std::int64_t r = 0; r < dy.rows; ++r) {
      const T* line = row<T>(dy, r) + first;
#pragma omp simd
      for (std::int64_t j = 0; j < last - first; ++j) sums[j] += to_float(line[j]);
    }
    for (std::int64_t j = first; j < last; ++j) out[j] += sums[j - first];
  });
}

constexpr float kGeluScale = 0.7978845608F;  // sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715F;

template <ActivationKind kind>
[[gnu::always_inline]] inline float activated(float x) {
  if constexpr (kind == ActivationKind::gelu)
    return 0.5F * x * (1.0F + fast_tanh(kGeluScale * (x + kGeluCubic * x * x * x)));
  if constexpr (kind == ActivationKind::silu) return x * sigmoid(x);
  return x > 0 ? x : 0;
}

template <ActivationKind kind>
[[gnu::always_inline]] inline float slope(float x) {
  if constexpr (kind == ActivationKind::gelu) {
    const float t = fast_tanh(kGeluScale * (x + kGeluCubic * x * x * x));
    return 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * kGeluScale * (1.0F + 3.0F * kGeluCubic * x * x);
  }
  if constexpr (kind == ActivationKind::silu) {
    const float s = sigmoid(x);
    return s * (1.0F + x * (1.0F - s));
  }
  return x > 0 ? 1.0F : 0.0F;
}

template <class T, ActivationKind kind>
inline void activate_rows(bool gated, Tensor y, Tensor x) {
  for_rows(y.rows, 8 * y.cols, [&](std::int64_t r) {
    T* out = row<T>(y, r);
    const T* in = row<T>(x, r);
    const T* gate = in + y.cols;
    if (gated)
#pragma omp simd
      for (std::int64_t j = 0; j < y.cols; ++j)
        out[j] = from_float<T>(activated<kind>(to_float(in[j])) * to_float(gate[j]));
    else
#pragma omp simd
      for (std::int64_t j = 0; j < y.cols; ++j) out[j] = from_float<T>(activated<kind>(to_float(in[j])));
  });
}

template <class T, ActivationKind kind>
inline void activate_rows_backward(bool gated, Tensor dx, Tensor dy, Tensor x) {
  for_rows(dy.rows, 8 * dy.cols, [&](std::int64_t r) {
    T* out = row<T>(dx, r);
    const T* gradient = row<T>(dy, r);
    const T* in = row<T>(x, r);
    const std::int64_t f = dy.cols;
    if (gated)
      for (std::int64_t j = 0; j < f; ++j) {
        const float a = to_float(in[j]), b = to_float(in[f + j]), g = to_float(gradient[j]);
        out[j] = from_float<T>(g * b * slope<kind>(a));
        out[f + j] = from_float<T>(g * activated<kind>(a));
      }
    else
#pragma omp simd
      for (std::int64_t j = 0; j < f; ++j)
        out[j] = from_float<T>(to_float(gradient[j]) * slope<kind>(to_float(in[j])));
  });
}

template <class T>
inline void activate(ActivationKind kind, bool gated, Tensor y, Tensor x) {
  switch (kind) {
    case ActivationKind::gelu:
      return activate_rows<T, ActivationKind::gelu>(gated, y, x);
    case ActivationKind::relu:
      return activate_rows<T, ActivationKind::relu>(gated, y, x);
    case ActivationKind::silu:
      return activate_rows<T, ActivationKind::silu>(gated, y, x);
  }
}

template <class T>
inline void activate_backward(ActivationKind kind, bool gated, Tensor dx, Tensor dy, Tensor x) {
  switch (kind) {
    case ActivationKind::gelu:
      return activate_rows_backward<T, ActivationKind::gelu>(gated, dx, dy, x);
    case ActivationKind::relu:
      return activate_rows_backward<T, ActivationKind::relu>(gated, dx, dy, x);
    case ActivationKind::silu:
      return activate_rows_backward<T, ActivationKind::silu>(gated, dx, dy, x);
  }
}

/// Scale of an element that is kept, or 0.
struct Kept {
  std::uint64_t seed;
  std::uint32_t threshold;
  float scale;
  explicit Kept(const DropoutKey& key)
      : seed(key.seed),
        threshold(static_cast<std::uint32_t>(key.probability * 16777216.0F)),
        scale(1.0F / (1.0F - key.probability)) {}
  [[gnu::always_inline]] float operator()(std::uint64_t counter) const {
    return random_bits(seed, counter) < threshold ? 0.0F : scale;
  }
};

template <class T>
inline void add_dropped(Tensor out, Tensor residual, Tensor x, const DropoutKey& key) {
  const Kept kept(key);
  for_rows(x.rows, x.cols, [&](std::int64_t r) {
    T* to = row<T>(out, r);
    const T *base = row<T>(residual, r), *in = row<T>(x, r);
    const auto counter = static_cast<std::uint64_t>((key.first_row + r) * key.width + key.first_col);
    if (key.probability > 0)
      for (std::int64_t j = 0; j < x.cols; ++j)
        to[j] = from_float<T>(to_float(base[j]) +
                              kept(counter + static_cast<std::uint64_t>(j)) * to_float(in[j]));
    else
#pragma omp simd
      for (std::int64_t j = 0; j < x.cols; ++j) to[j] = from_float<T>(to_float(base[j]) + to_float(in[j]));
  });
}

template <class T>
inline void drop(Tensor out, Tensor x, const DropoutKey& key) {
  const Kept kept(key);
  for_rows(x.rows, x.cols, [&](std::int64_t r) {
    T* to = row<T>(out, r);
    const T* in = row<T>(x, r);
    const auto counter = static_cast<std::uint64_t>((key.first_row + r) * key.width + key.first_col);
    for (std::int64_t j = 0; j < x.cols; ++j)
      to[j] =
          from_float<T>(key.probability > 0 ? kept(counter + static_cast<std::uint64_t>(j)) * to_float(in[j])
                                            : to_float(in[j]));
  });
}

template <class T>
inline void rotate_pairs(Tensor x, int heads, int head_dim, int sequence, double theta, bool inverse) {
  const int half = head_dim / 2;
  static thread_local Scratch table;
  float* frequencies = table.get(half);
  for (int i = 0; i < half; ++i) frequencies[i] = static_cast<float>(std::pow(theta, -2.0 * i / head_dim));
  for_rows(x.rows, 16LL * heads * head_dim, [&](std::int64_t r) {
    static thread_local Scratch angles;
    float* cosine = angles.get(2 * half);
    float* sine = cosine + half;
    for (int i = 0; i < half; ++i) {
      const float angle = static_cast<float>(r % sequence) * frequencies[i];
      cosine[i] = std::cos(angle);
      sine[i] = inverse ? -std::sin(angle) : std::sin(angle);
    }
    for (int h = 0; h < heads; ++h) {
      T* a = row<T>(x, r) + h * head_dim;
      T* b = a + half;
      for (int i = 0; i < half; ++i) {
        const float p = to_float(a[i]), q = to_float(b[i]);
        a[i] = from_float<T>(p * cosine[i] - q * sine[i]);
        b[i] = from_float<T>(q * cosine[i] + p * sine[i]);
      }
    }
  });
}

template <class T>
inline void embed_rows(Tensor y, const std::int32_t* tokens, Tensor table, std::int64_t first) {
  for_rows(y.rows, y.cols, [&](std::int64_t r) {
    T* to = row<T>(y, r);
    const std::int64_t index = tokens[r] - first;
    const bool own = index >= 0 && index < table.rows;
    const T* from = row<T>(table, own ? index : 0);
    for (std::int64_t j = 0; j < y.cols; ++j) to[j] = own ? from[j] : from_float<T>(0.0F);
  });
}

/// Threads take columns, so that rows of the same token are added in the order of the batch.
template <class T>
inline void embed_gradient(Tensor gradient, const std::int32_t* tokens, Tensor dy, std::int64_t first) {
  for_pieces(dy.cols, kColumns, dy.rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < dy.rows; ++r) {
      const std::int64_t index = tokens[r] - first;
      if (index < 0 || index >= gradient.rows) continue;
      float* to = row<float>(gradient, index);
      const T* from = row<T>(dy, r);
#pragma omp simd
      for (std::int64_t j = begin; j < end; ++j) to[j] += to_float(from[j]);
    }
  });
}

template <class T>
inline void add_position_rows(Tensor y, Tensor positions, std::int64_t first_row, int sequence) {
  for_rows(y.rows, y.cols, [&](std::int64_t r) {
    T* to = row<T>(y, r);
    const T* from = row<T>(positions, (first_row + r) % sequence);
#pragma omp simd
    for (std::int64_t j = 0; j < y.cols; ++j) to[j] = from_float<T>(to_float(to[j]) + to_float(from[j]));
  });
}

template <class T>
inline void position_gradient(Tensor gradient, Tensor dy, std::int64_t first_row, int sequence) {
  for_pieces(dy.cols, kColumns, dy.rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < dy.rows; ++r) {
      float* to = row<float>(gradient, (first_row + r) % sequence);
      const T* from = row<T>(dy, r);
#pragma omp simd
      for (std::int64_t j = begin; j < end; ++j) to[j] += to_float(from[j]);
    }
  });
}

/// AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101): one pass over weights, moments and gradient.
template <class T>
inline void adamw_step(Tensor weights, Tensor copy, Tensor first, Tensor second, Tensor gradient,
                       const AdamW& step) {
  float* w = weights.as<float>();
  float *m = first.as<float>(), *v = second.as<float>();
  const float* g = gradient.as<float>();
  T* out = copy.as<T>();
  const float decay = 1.0F - step.learning_rate * step.weight_decay;
  const float rate = step.learning_rate / step.correction1;
  const float scale2 = 1.0F / step.correction2;
  for_pieces(weights.cols, 16384, 4, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      const float gi = g[i] * step.gradient_scale;
      const float mi = step.beta1 * m[i] + (1.0F - step.beta1) * gi;
      const float vi = step.beta2 * v[i] + (1.0F - step.beta2) * gi * gi;
      m[i] = mi;
      v[i] = vi;
      w[i] = w[i] * decay - rate * mi / (std::sqrt(vi * scale2) + step.epsilon);
    }
    if (out != nullptr)
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) out[i] = from_float<T>(w[i]);
  });
}

template <class T>
inline void sgd_step(Tensor weights, Tensor copy, Tensor gradient, const AdamW& step) {
  float* w = weights.as<float>();
  const float* g = gradient.as<float>();
  T* out = copy.as<T>();
  const float decay = 1.0F - step.learning_rate * step.weight_decay;
  const float rate = step.learning_rate * step.gradient_scale;
  for_pieces(weights.cols, 16384, 2, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) w[i] = w[i] * decay - rate * g[i];
    if (out != nullptr)
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) out[i] = from_float<T>(w[i]);
  });
}

inline double squares(Tensor x) {
  double total = 0;
  constexpr std::int64_t kPiece = 16384;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const float* line = row<float>(x, r);
    const std::int64_t pieces = (x.cols + kPiece - 1) / kPiece;
#pragma omp parallel for schedule(static) reduction(+ : total) if (pieces > 1)
    for (std::int64_t p = 0; p < pieces; ++p) {
      const std::int64_t begin = p * kPiece, end = begin + kPiece < x.cols ? begin + kPiece : x.cols;
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = begin; j < end; ++j) sum += line[j] * line[j];
      total += static_cast<double>(sum);
    }
  }
  return total;
}

}  // namespace
}  // namespace tpplan
