#pragma once

#include "executor/backend/backend.hpp"
#include "executor/cpu/vector_math.hpp"

// Causal attention without a matrix of probabilities in memory: blocks of queries against the keys up to
// their diagonal (Dao et al. 2022, arXiv 2205.14135, for the statistics that the backward needs). Included by
// kernels.cpp alone.

namespace tpplan {
namespace {

constexpr std::int64_t kQueries = 32;  // of a block
constexpr std::int64_t kTileRows = 4;

/// c (4 x C) = or += sum over k of a[row, k] b[k, :]; b and c have their columns side by side.
template <int C>
[[gnu::always_inline]] inline void tile(float* c, std::int64_t ldc, const float* a, std::int64_t a_row,
                                        std::int64_t a_k, const float* b, std::int64_t ldb,
                                        std::int64_t depth, bool accumulate) {
  float sums[kTileRows][C] = {};
  for (std::int64_t k = 0; k < depth; ++k)
    for (std::int64_t r = 0; r < kTileRows; ++r) {
      const float factor = a[r * a_row + k * a_k];
#pragma omp simd
      for (int j = 0; j < C; ++j) sums[r][j] += factor * b[k * ldb + j];
    }
  for (std::int64_t r = 0; r < kTileRows; ++r)
#pragma omp simd
    for (int j = 0; j < C; ++j) c[r * ldc + j] = accumulate ? c[r * ldc + j] + sums[r][j] : sums[r][j];
}

/// c (rows x cols) = or += a (rows x depth) b (depth x cols). rows a multiple of 4, cols of 16.
inline void small_product(float* c, std::int64_t ldc, const float* a, std::int64_t a_row, std::int64_t a_k,
                          const float* b, std::int64_t ldb, std::int64_t rows, std::int64_t cols,
                          std::int64_t depth, bool accumulate) {
#ifdef __AVX512F__
  constexpr int kWide = 64;
#else
  constexpr int kWide = 16;
#endif
  std::int64_t j = 0;
  for (; j + kWide <= cols; j += kWide)
    for (std::int64_t i = 0; i < rows; i += kTileRows)
      tile<kWide>(c + i * ldc + j, ldc, a + i * a_row, a_row, a_k, b + j, ldb, depth, accumulate);
  for (; j < cols; j += 16)
    for (std::int64_t i = 0; i < rows; i += kTileRows)
      tile<16>(c + i * ldc + j, ldc, a + i * a_row, a_row, a_k, b + j, ldb, depth, accumulate);
}

constexpr std::int64_t padded(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

/// to (rows x width) = rows of x in fp32; rows beyond `rows` and columns beyond x are zero.
template <class T>
inline void load_rows(float* to, std::int64_t width, Tensor x, std::int64_t first, std::int64_t rows,
                      std::int64_t padded_rows) {
  for (std::int64_t r = 0; r < padded_rows; ++r) {
    float* line = to + r * width;
    const std::int64_t have = r < rows ? x.cols : 0;
    const T* from = r < rows ? row<T>(x, first + r) : nullptr;
#pragma omp simd
    for (std::int64_t j = 0; j < have; ++j) line[j] = to_float(from[j]);
    for (std::int64_t j = have; j < width; ++j) line[j] = 0;
  }
}

inline void transpose(float* to, std::int64_t ldt, const float* from, std::int64_t ldf, std::int64_t rows,
                      std::int64_t cols) {
  for (std::int64_t j = 0; j < cols; ++j)
    for (std::int64_t r = 0; r < rows; ++r) to[j * ldt + r] = from[r * ldf + j];
}

/// Whether the probability of key k is kept, and by what it is scaled.
struct ProbabilityDropout {
  std::uint64_t seed;
  std::uint64_t row;  // of the query in the whole batch
  std::uint64_t width;
  std::uint32_t threshold;
  float scale;
  [[gnu::always_inline]] float factor(std::int64_t key) const {
    return random_bits(seed, row * width + static_cast<std::uint64_t>(key)) < threshold ? 0.0F : scale;
  }
};

inline ProbabilityDropout probability_dropout(const AttentionArguments& a, int sample, int head,
                                              std::int64_t query) {
  const std::int64_t line =
      ((a.first_sample + sample) * a.all_heads + a.first_head + head) * a.sequence + query;
  return {a.dropout.seed, static_cast<std::uint64_t>(line), static_cast<std::uint64_t>(a.sequence),
          static_cast<std::uint32_t>(a.dropout.probability * 16777216.0F),
          1.0F / (1.0F - a.dropout.probability)};
}

struct AttentionSizes {
  std::int64_t t, tp, d, dp;  // tokens, padded to 16 and a block; head size, padded to 16
  explicit AttentionSizes(const AttentionArguments& a)
      : t(a.sequence), tp(padded(a.sequence, kQueries)), d(a.head_dim), dp(padded(a.head_dim, 16)) {}
};

/// Tensor of one head of one sample.
inline Tensor head_of(Tensor x, const AttentionArguments& a, int sample, int head) {
  return x.row_range(static_cast<std::int64_t>(sample) * a.sequence, a.sequence)
      .col_range(static_cast<std::int64_t>(head) * a.head_dim, a.head_dim);
}

/// scores (block x keys) = scale * q k^T, then probabilities from the known or the new log-sum-exp.
inline void softmax_rows(float* scores, const AttentionSizes& n, std::int64_t first, std::int64_t keys,
                         float scale, float* lse) {
  for (std::int64_t r = 0; r < kQueries && first + r < n.t; ++r) {
    float* s = scores + r * n.tp;
    const std::int64_t valid = first + r + 1;
    float top = -3.4e38F;
#pragma omp simd reduction(max : top)
    for (std::int64_t k = 0; k < valid; ++k) top = top > s[k] ? top : s[k];
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t k = 0; k < valid; ++k) {
      s[k] = fast_exp(scale * (s[k] - top));
      sum += s[k];
    }
    const float inverse = 1.0F / sum;
#pragma omp simd
    for (std::int64_t k = 0; k < valid; ++k) s[k] *= inverse;
    for (std::int64_t k = valid; k < keys; ++k) s[k] = 0;
    lse[first + r] = scale * top + std::log(sum);
  }
}

template <class T>
inline void attention_forward(Tensor out, const AttentionArguments& a) {
  const AttentionSizes n(a);
  const int group = a.heads / a.kv_heads;
  const std::int64_t cost = n.t * n.t * n.d;
  for_rows(static_cast<std::int64_t>(a.samples) * a.heads, cost, [&](std::int64_t index) {
    static thread_local Scratch scratch;
    const int sample = static_cast<int>(index / a.heads), head = static_cast<int>(index % a.heads);
    float* v = scratch.get(n.tp * n.dp * 2 + kQueries * (n.tp + 2 * n.dp));
    float* kt = v + n.tp * n.dp;
    float* scores = kt + n.tp * n.dp;
    float* q = scores + kQueries * n.tp;
    float* o = q + kQueries * n.dp;
    const Tensor qx = head_of(a.q, a, sample, head), ox = head_of(out, a, sample, head);
    load_rows<T>(v, n.dp, head_of(a.k, a, sample, head / group), 0, n.t, n.tp);
    transpose(kt, n.tp, v, n.dp, n.tp, n.dp);
    load_rows<T>(v, n.dp, head_of(a.v, a, sample, head / group), 0, n.t, n.tp);
    float* lse = row<float>(a.lse, index);
    for (std::int64_t first = 0; first < n.t; first += kQueries) {
      const std::int64_t rows = n.t - first < kQueries ? n.t - first : kQueries;
      const std::int64_t keys = first + kQueries;
      load_rows<T>(q, n.dp, qx, first, rows, kQueries);
      small_product(scores, n.tp, q, n.dp, 1, kt, n.tp, kQueries, keys, n.d, false);
      softmax_rows(scores, n, first, keys, a.scale, lse);
      if (a.dropout.probability > 0)
        for (std::int64_t r = 0; r < rows; ++r) {
          const auto drop = probability_dropout(a, sample, head, first + r);
          for (std::int64_t k = 0; k <= first + r; ++k) scores[r * n.tp + k] *= drop.factor(k);
        }
      small_product(o, n.dp, scores, n.tp, 1, v, n.dp, kQueries, n.dp, keys, false);
      for (std::int64_t r = 0; r < rows; ++r) {
        T* to = row<T>(ox, first + r);
#pragma omp simd
        for (std::int64_t j = 0; j < n.d; ++j) to[j] = from_float<T>(o[r * n.dp + j]);
      }
    }
  });
}

/// Working memory of the backward of one key head.
struct BackwardScratch {
  float *k, *kt, *vt, *dk, *dv, *p, *dp, *q, *o, *dq;
  [[nodiscard]] static std::int64_t size(const AttentionSizes& n) {
    return 5 * n.tp * n.dp + 2 * kQueries * n.tp + 3 * kQueries * n.dp;
  }
  BackwardScratch(float* at, const AttentionSizes& n) {
    for (float** part : {&k, &kt, &vt, &dk, &dv}) *part = at, at += n.tp * n.dp;
    for (float** part : {&p, &dp}) *part = at, at += kQueries * n.tp;
    for (float** part : {&q, &o, &dq}) *part = at, at += kQueries * n.dp;
  }
};

/// One block of queries: dv += P^T dO, dS = P (dP - D) scale, dq = dS k, dk += dS^T q.
template <class T>
inline void attention_backward_block(const BackwardScratch& w, const AttentionSizes& n,
                                     const AttentionArguments& a, int sample, int head, std::int64_t first,
                                     Tensor out, Tensor dout, Tensor dq) {
  const std::int64_t rows = n.t - first < kQueries ? n.t - first : kQueries;
  const std::int64_t keys = first + kQueries;
  load_rows<T>(w.q, n.dp, head_of(a.q, a, sample, head), first, rows, kQueries);
  load_rows<T>(w.o, n.dp, head_of(dout, a, sample, head), first, rows, kQueries);
  const Tensor ox = head_of(out, a, sample, head);
  const float* lse = row<float>(a.lse, static_cast<std::int64_t>(sample) * a.heads + head);
  small_product(w.p, n.tp, w.q, n.dp, 1, w.kt, n.tp, kQueries, keys, n.d, false);
  small_product(w.dp, n.tp, w.o, n.dp, 1, w.vt, n.tp, kQueries, keys, n.d, false);
  for (std::int64_t r = 0; r < kQueries; ++r) {
    float* p = w.p + r * n.tp;
    float* dp = w.dp + r * n.tp;
    const std::int64_t valid = r < rows ? first + r + 1 : 0;
    for (std::int64_t k = valid; k < keys; ++k) p[k] = dp[k] = 0;
    if (valid == 0) continue;
    float inner = 0;  // D = dO . O
    const T* o = row<T>(ox, first + r);
#pragma omp simd reduction(+ : inner)
    for (std::int64_t j = 0; j < n.d; ++j) inner += to_float(o[j]) * w.o[r * n.dp + j];
    const float shift = lse[first + r];
    if (a.dropout.probability > 0) {
      const auto drop = probability_dropout(a, sample, head, first + r);
      for (std::int64_t k = 0; k < valid; ++k) {
        const float factor = drop.factor(k);
        const float probability = fast_exp(a.scale * p[k] - shift);
        dp[k] = a.scale * probability * (factor * dp[k] - inner);
        p[k] = probability * factor;
      }
    } else {
#pragma omp simd
      for (std::int64_t k = 0; k < valid; ++k) {
        p[k] = fast_exp(a.scale * p[k] - shift);
        dp[k] = a.scale * p[k] * (dp[k] - inner);
      }
    }
  }
  small_product(w.dv, n.dp, w.p, 1, n.tp, w.o, n.dp, keys, n.dp, kQueries, true);
  small_product(w.dk, n.dp, w.dp, 1, n.tp, w.q, n.dp, keys, n.dp, kQueries, true);
  small_product(w.dq, n.dp, w.dp, n.tp, 1, w.k, n.dp, kQueries, n.dp, keys, false);
  const Tensor dqx = head_of(dq, a, sample, head);
  for (std::int64_t r = 0; r < rows; ++r) {
    T* to = row<T>(dqx, first + r);
#pragma omp simd
    for (std::int64_t j = 0; j < n.d; ++j) to[j] = from_float<T>(w.dq[r * n.dp + j]);
  }
}

template <class T>
inline void attention_backward(Tensor dq, Tensor dk, Tensor dv, Tensor out, Tensor dout,
                               const AttentionArguments& a) {
  const AttentionSizes n(a);
  const int group = a.heads / a.kv_heads;
  const std::int64_t cost = n.t * n.t * n.d * group;
  for_rows(static_cast<std::int64_t>(a.samples) * a.kv_heads, cost, [&](std::int64_t index) {
    static thread_local Scratch scratch;
    const BackwardScratch w(scratch.get(BackwardScratch::size(n)), n);
    const int sample = static_cast<int>(index / a.kv_heads), kv = static_cast<int>(index % a.kv_heads);
    load_rows<T>(w.k, n.dp, head_of(a.v, a, sample, kv), 0, n.t, n.tp);
    transpose(w.vt, n.tp, w.k, n.dp, n.tp, n.dp);
    load_rows<T>(w.k, n.dp, head_of(a.k, a, sample, kv), 0, n.t, n.tp);
    transpose(w.kt, n.tp, w.k, n.dp, n.tp, n.dp);
    for (std::int64_t i = 0; i < n.tp * n.dp; ++i) w.dk[i] = w.dv[i] = 0;
    for (int head = kv * group; head < (kv + 1) * group; ++head)
      for (std::int64_t first = 0; first < n.t; first += kQueries)
        attention_backward_block<T>(w, n, a, sample, head, first, out, dout, dq);
    const Tensor dkx = head_of(dk, a, sample, kv), dvx = head_of(dv, a, sample, kv);
    for (std::int64_t t = 0; t < n.t; ++t) {
      T *to_k = row<T>(dkx, t), *to_v = row<T>(dvx, t);
#pragma omp simd
      for (std::int64_t j = 0; j < n.d; ++j) {
        to_k[j] = from_float<T>(w.dk[t * n.dp + j]);
        to_v[j] = from_float<T>(w.dv[t * n.dp + j]);
      }
    }
  });
}

}  // namespace
}  // namespace tpplan
