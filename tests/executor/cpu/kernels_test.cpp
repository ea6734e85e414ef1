// Every backward kernel against finite differences of its forward, and forwards against plain formulas in
// double precision, for every instruction set that this processor has.

#include "executor/cpu/kernels.hpp"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <random>

#include "executor/backend/half.hpp"
#include "executor/cpu/cpu_backend.hpp"

namespace tpplan::testing {
namespace {

std::vector<std::unique_ptr<Backend>> backends() {
  std::vector<std::unique_ptr<Backend>> all;
  all.emplace_back(kernels_base(1));
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) all.emplace_back(kernels_v3(1));
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    all.emplace_back(kernels_v4(2));
#endif
  return all;
}

/// A matrix of its own, with a stride that is longer than its rows.
struct Values {
  std::int64_t rows, cols, stride;
  std::vector<float> data;
  Values(std::int64_t r, std::int64_t c, unsigned seed, double spread = 1) : rows(r), cols(c), stride(c + 3) {
    data.resize(static_cast<std::size_t>(rows * stride), 7.0F);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0F, static_cast<float>(spread));
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < cols; ++j) at(i, j) = normal(random);
  }
  float& at(std::int64_t i, std::int64_t j) { return data[static_cast<std::size_t>(i * stride + j)]; }
  [[nodiscard]] Tensor tensor() { return matrix(data.data(), DType::f32, rows, cols, stride); }
};

struct Line : Values {
  explicit Line(std::int64_t n, unsigned seed = 0) : Values(1, n, seed) { stride = cols; }
  [[nodiscard]] Tensor tensor() { return vector(data.data(), DType::f32, cols); }
};

/// sum over all elements of y * w: a function whose gradient with respect to y is w.
double weighted(Values& y, Values& w) {
  double sum = 0;
  for (std::int64_t i = 0; i < y.rows; ++i)
    for (std::int64_t j = 0; j < y.cols; ++j)
      sum += static_cast<double>(y.at(i, j)) * static_cast<double>(w.at(i, j));
  return sum;
}

/// Compares d(loss)/dx for every element with central differences. Steps of 1/64 leave an error of about
/// step^2 and rounding / step: a thousandth of the largest gradient is allowed.
void expect_gradient(Values& x, Values& gradient, const std::function<double()>& loss, const char* what,
                     double allowed = 2e-3) {
  double largest = 1e-3;
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j)
      largest = std::max(largest, std::abs(static_cast<double>(gradient.at(i, j))));
  constexpr float kStep = 1.0F / 64;
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.cols; ++j) {
      const float before = x.at(i, j);
      x.at(i, j) = before + kStep;
      const double above = loss();
      x.at(i, j) = before - kStep;
      const double below = loss();
      x.at(i, j) = before;
      const double expected = (above - below) / (2 * static_cast<double>(kStep));
      ASSERT_NEAR(static_cast<double>(gradient.at(i, j)), expected, allowed * largest)
          << what << " at " << i << ", " << j;
    }
}

TEST(Kernels, NormBackwardIsTheSlopeOfItsForward) {
  for (const auto& backend : backends())
    for (const NormKind kind : {NormKind::layer_norm, NormKind::rms_norm}) {
      const bool has_bias = kind == NormKind::layer_norm;
      Values x(5, 19, 1), y(5, 19, 2), dy(5, 19, 3), dx(5, 19, 4), residual(5, 19, 5);
      Line w(19, 6), b(19, 7), dw(19), db(19);
      Line statistics(10);
      const Tensor st = matrix(statistics.data.data(), DType::f32, 2, 5);
      const auto loss = [&] {
        backend->norm(kind, y.tensor(), st, x.tensor(), w.tensor(), has_bias ? b.tensor() : Tensor{}, 1e-5F);
        return weighted(y, dy);
      };
      (void)loss();
      std::fill(dw.data.begin(), dw.data.end(), 0.0F);
      std::fill(db.data.begin(), db.data.end(), 0.0F);
      backend->norm_backward(kind, dx.tensor(), {}, dw.tensor(), has_bias ? db.tensor() : Tensor{},
                             dy.tensor(), x.tensor(), st, w.tensor());
      expect_gradient(x, dx, loss, "input of a norm", 5e-3);
      expect_gradient(w, dw, loss, "weight of a norm");
      if (has_bias) expect_gradient(b, db, loss, "bias of a norm");
      Values with(5, 19, 8);
      backend->norm_backward(kind, with.tensor(), residual.tensor(), dw.tensor(), {}, dy.tensor(), x.tensor(),
                             st, w.tensor());
      EXPECT_NEAR(with.at(3, 4), dx.at(3, 4) + residual.at(3, 4), 1e-5);
    }
}

TEST(Kernels, ActivationBackwardIsTheSlopeOfItsForward) {
  for (const auto& backend : backends())
    for (const ActivationKind kind : {ActivationKind::gelu, ActivationKind::silu})
      for (const bool gated : {false, true}) {
        Values x(4, gated ? 34 : 17, 1, 2), y(4, 17, 2), dy(4, 17, 3), dx(4, gated ? 34 : 17, 4);
        const auto loss = [&] {
          backend->activation(kind, gated, y.tensor(), x.tensor());
          return weighted(y, dy);
        };
        backend->activation_backward(kind, gated, dx.tensor(), dy.tensor(), x.tensor());
        expect_gradient(x, dx, loss, "activation");
      }
}

TEST(Kernels, GeluAndExponentialAgreeWithTheirFormulas) {
  for (const auto& backend : backends()) {
    Values x(1, 201, 0), y(1, 201, 0);
    for (std::int64_t j = 0; j < 201; ++j) x.at(0, j) = static_cast<float>(j - 100) / 8;
    backend->activation(ActivationKind::gelu, false, y.tensor(), x.tensor());
    for (std::int64_t j = 0; j < 201; ++j) {
      const double v = static_cast<double>(x.at(0, j));
      const double expected = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      // 1 + tanh loses what is below an ulp of 1: absolute 2^-23 times |v|.
      EXPECT_NEAR(static_cast<double>(y.at(0, j)), expected, 4e-7 * (1 + std::abs(v))) << v;
    }
  }
}

struct AttentionCase {
  int samples, sequence, heads, kv_heads, head_dim;
  float dropout;
};

/// Probabilities and outputs in double precision, without dropout.
std::vector<double> plain_attention(Values& qkv, const AttentionCase& c) {
  const int q_width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
  std::vector<double> out(static_cast<std::size_t>(c.samples * c.sequence * q_width));
  for (int b = 0; b < c.samples; ++b)
    for (int h = 0; h < c.heads; ++h)
      for (int t = 0; t < c.sequence; ++t) {
        const int kv = h / (c.heads / c.kv_heads);
        std::vector<double> p(static_cast<std::size_t>(t + 1));
        double sum = 0;
        for (int s = 0; s <= t; ++s) {
          double score = 0;
          for (int d = 0; d < c.head_dim; ++d)
            score += static_cast<double>(qkv.at(b * c.sequence + t, h * c.head_dim + d)) *
                     static_cast<double>(qkv.at(b * c.sequence + s, q_width + kv * c.head_dim + d));
          sum += p[static_cast<std::size_t>(s)] = std::exp(score / std::sqrt(c.head_dim));
        }
        for (int d = 0; d < c.head_dim; ++d) {
          double o = 0;
          for (int s = 0; s <= t; ++s)
            o += p[static_cast<std::size_t>(s)] / sum *
                 static_cast<double>(qkv.at(b * c.sequence + s, q_width + kv_width + kv * c.head_dim + d));
          out[static_cast<std::size_t>((b * c.sequence + t) * q_width + h * c.head_dim + d)] = o;
        }
      }
  return out;
}

AttentionArguments arguments_of(const AttentionCase& c, Tensor qkv, Tensor lse) {
  AttentionArguments a;
  a.samples = c.samples;
  a.sequence = c.sequence;
  a.heads = c.heads;
  a.kv_heads = c.kv_heads;
  a.head_dim = c.head_dim;
  a.q = qkv.col_range(0, c.heads * c.head_dim);
  a.k = qkv.col_range(c.heads * c.head_dim, c.kv_heads * c.head_dim);
  a.v = qkv.col_range((c.heads + c.kv_heads) * c.head_dim, c.kv_heads * c.head_dim);
  a.lse = lse;
  a.scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
  a.dropout.probability = c.dropout;
  a.dropout.seed = 99;
  a.all_heads = c.heads;
  return a;
}

TEST(Kernels, AttentionAgreesWithItsFormulaAndItsBackwardWithDifferences) {
  // One token, a whole block of queries, blocks that end early, grouped heads, a head size that is no vector.
  for (const AttentionCase& c : {AttentionCase{1, 1, 1, 1, 8, 0},
                                 {2, 5, 2, 1, 6, 0},
                                 {1, 32, 2, 2, 16, 0},
                                 {1, 37, 4, 2, 10, 0},
                                 {1, 9, 2, 2, 8, 0.3F}})
    for (const auto& backend : backends()) {
      const std::int64_t rows = c.samples * c.sequence, q = c.heads * c.head_dim,
                         kv = c.kv_heads * c.head_dim;
      Values qkv(rows, q + 2 * kv, 1), out(rows, q, 2), dout(rows, q, 3), dqkv(rows, q + 2 * kv, 4);
      Line lse(c.samples * c.heads * c.sequence);
      const Tensor lse_matrix = matrix(lse.data.data(), DType::f32, c.samples * c.heads, c.sequence);
      const AttentionArguments a = arguments_of(c, qkv.tensor(), lse_matrix);
      const AttentionArguments d = arguments_of(c, dqkv.tensor(), {});
      const auto loss = [&] {
        backend->attention(out.tensor(), a);
        return weighted(out, dout);
      };
      (void)loss();
      if (c.dropout == 0) {
        const std::vector<double> expected = plain_attention(qkv, c);
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < q; ++j)
            ASSERT_NEAR(static_cast<double>(out.at(i, j)), expected[static_cast<std::size_t>(i * q + j)],
                        3e-6);
      }
      backend->attention_backward(d.q, d.k, d.v, out.tensor(), dout.tensor(), a);
      expect_gradient(qkv, dqkv, loss, "attention", 4e-3);
    }
}

TEST(Kernels, RotationKeepsLengthsAndIsUndoneByItsInverse) {
  for (const auto& backend : backends()) {
    Values x(12, 16, 1), before = x;
    backend->rotate(x.tensor(), 2, 8, 6, 10000, false);
    // Position 1, pair 1 of head 0: angle 10000^(-2/8) = 0.1.
    EXPECT_NEAR(x.at(1, 1), std::cos(0.1) * before.at(1, 1) - std::sin(0.1) * before.at(1, 5), 1e-6);
    EXPECT_EQ(x.at(6, 3), before.at(6, 3));  // position 0 of the second sample
    backend->rotate(x.tensor(), 2, 8, 6, 10000, true);
    for (std::int64_t i = 0; i < 12; ++i)
      for (std::int64_t j = 0; j < 16; ++j) EXPECT_NEAR(x.at(i, j), before.at(i, j), 1e-6);
  }
}

TEST(Kernels, CrossEntropyOverASplitVocabularyIsTheWhole) {
  for (const auto& backend : backends()) {
    // 11 columns of which 10 count, cut at 6: rank 1 holds columns 6 to 9 and one of padding.
    Values whole(3, 11, 1);
    const std::int32_t targets[] = {2, 9, 6};
    double loss[2] = {0, 0};
    std::vector<float> maximum[2], sum[2], picked[2];
    for (int r = 0; r < 2; ++r) {
      for (auto* v : {&maximum[r], &sum[r], &picked[r]}) v->resize(3);
      const Tensor part = whole.tensor().col_range(6 * r, r == 0 ? 6 : 5);
      backend->softmax_statistics(
          vector(maximum[r].data(), DType::f32, 3), vector(sum[r].data(), DType::f32, 3),
          vector(picked[r].data(), DType::f32, 3), part, targets, 6 * r, r == 0 ? 6 : 4);
    }
    std::vector<float> all(3), sums(3), picks(3);
    for (std::size_t i = 0; i < 3; ++i) all[i] = std::max(maximum[0][i], maximum[1][i]);
    for (int r = 0; r < 2; ++r) {
      backend->rescale_sums(vector(sum[r].data(), DType::f32, 3), vector(maximum[r].data(), DType::f32, 3),
                            vector(all.data(), DType::f32, 3));
      for (std::size_t i = 0; i < 3; ++i) sums[i] += sum[r][i], picks[i] += picked[r][i];
    }
    loss[0] = backend->loss_sum(vector(all.data(), DType::f32, 3), vector(sums.data(), DType::f32, 3),
                                vector(picks.data(), DType::f32, 3));
    for (std::int64_t i = 0; i < 3; ++i) {
      double denominator = 0;
      for (std::int64_t j = 0; j < 10; ++j) denominator += std::exp(static_cast<double>(whole.at(i, j)));
      loss[1] += std::log(denominator) - static_cast<double>(whole.at(i, targets[i]));
      const double p = std::exp(static_cast<double>(whole.at(i, 7))) / denominator;
      Values copy = whole;
      backend->softmax_gradient(copy.tensor().col_range(6, 5), vector(all.data(), DType::f32, 3),
                                vector(sums.data(), DType::f32, 3), targets, 6, 4, 0.5F);
      EXPECT_NEAR(copy.at(i, 7), 0.5 * p, 1e-6);
      EXPECT_EQ(copy.at(i, 10), 0.0F) << "padding";
      EXPECT_EQ(copy.at(i, 5), whole.at(i, 5)) << "another rank's column";
      if (i > 0) {
        EXPECT_LT(copy.at(i, targets[i]), 0.0F);
      }
    }
    EXPECT_NEAR(loss[0], loss[1], 1e-5);
  }
}

TEST(Kernels, ProductsTakeEveryOrientationStrideAndFormat) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    const auto backend = make_cpu_backend(2);
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        Values a(ta ? 7 : 5, ta ? 5 : 7, 1), b(tb ? 6 : 7, tb ? 7 : 6, 2), c(5, 6, 3);
        std::vector<std::uint16_t> halves_a(a.data.size()), halves_b(b.data.size());
        Tensor at = a.tensor(), bt = b.tensor();
        if (type != DType::f32) {
          at = matrix(halves_a.data(), type, a.rows, a.cols, a.stride);
          bt = matrix(halves_b.data(), type, b.rows, b.cols, b.stride);
          backend->copy(at, a.tensor());
          backend->copy(bt, b.tensor());
          backend->copy(a.tensor(), at);  // what the format keeps
          backend->copy(b.tensor(), bt);
        }
        Values expected = c;
        for (std::int64_t i = 0; i < 5; ++i)
          for (std::int64_t j = 0; j < 6; ++j)
            for (std::int64_t k = 0; k < 7; ++k)
              expected.at(i, j) += (ta ? a.at(k, i) : a.at(i, k)) * (tb ? b.at(j, k) : b.at(k, j));
        backend->matmul(c.tensor(), at, ta, bt, tb, 1);
        for (std::int64_t i = 0; i < 5; ++i)
          for (std::int64_t j = 0; j < 6; ++j) EXPECT_NEAR(c.at(i, j), expected.at(i, j), 2e-5);
        EXPECT_EQ(c.data[static_cast<std::size_t>(c.cols)], 7.0F) << "beyond the row nothing is written";
      }
  }
}

TEST(Kernels, SixteenBitFormatsRoundToTheNearestEven) {
  EXPECT_EQ(from_float<BFloat16>(1.0F).bits, 0x3f80);
  EXPECT_EQ(from_float<BFloat16>(1.0F + std::ldexp(1.0F, -8)).bits, 0x3f80);  // half an ulp: to even
  EXPECT_EQ(from_float<BFloat16>(1.0F + 3 * std::ldexp(1.0F, -8)).bits, 0x3f82);
  EXPECT_TRUE(std::isnan(to_float(from_float<BFloat16>(NAN))));
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) continue;
    ASSERT_EQ(from_float<Float16>(value).bits, half.bits)
        << bits;  // every value survives the way there and back
  }
  EXPECT_EQ(to_float(Float16{0x0001}), std::ldexp(1.0F, -24));
  EXPECT_EQ(to_float(Float16{0x7bff}), 65504.0F);
  EXPECT_EQ(from_float<Float16>(65520.0F).bits, 0x7c00);                            // rounds up to infinity
  EXPECT_EQ(from_float<Float16>(2049.0F).bits, from_float<Float16>(2048.0F).bits);  // tie to even
}

TEST(Kernels, AdamWTakesTheStepOfItsPaper) {
  const auto backend = make_cpu_backend(1);
  float w = 2, m = 0.5F, v = 0.25F, g = 4;
  AdamW step{.learning_rate = 0.1F,
             .beta1 = 0.9F,
             .beta2 = 0.99F,
             .epsilon = 1e-8F,
             .weight_decay = 0.5F,
             .correction1 = 0.19F,
             .correction2 = 0.0199F,
             .gradient_scale = 0.5F};
  BFloat16 copy{};
  backend->adamw(vector(&w, DType::f32, 1), vector(&copy, DType::bf16, 1), vector(&m, DType::f32, 1),
                 vector(&v, DType::f32, 1), vector(&g, DType::f32, 1), step);
  // g = 2: m = 0.9 * 0.5 + 0.1 * 2 = 0.65; v = 0.99 * 0.25 + 0.01 * 4 = 0.2875
  EXPECT_NEAR(m, 0.65, 1e-6);
  EXPECT_NEAR(v, 0.2875, 1e-6);
  const double expected = 2 * (1 - 0.1 * 0.5) - 0.1 * (0.65 / 0.19) / (std::sqrt(0.2875 / 0.0199) + 1e-8);
  EXPECT_NEAR(w, expected, 1e-6);
  EXPECT_EQ(copy.bits, from_float<BFloat16>(w).bits);
}

TEST(Kernels, DropoutKeepsTheExpectedShareAndDependsOnThePlaceAlone) {
  const auto backend = make_cpu_backend(2);
  Values x(64, 100, 0);
  std::fill(x.data.begin(), x.data.end(), 1.0F);
  Values whole(64, 100, 1), part(32, 100, 2);
  DropoutKey key{.seed = 5, .probability = 0.25F, .width = 100};
  backend->dropout(whole.tensor(), x.tensor(), key);
  double kept = 0;
  for (std::int64_t i = 0; i < 64; ++i)
    for (std::int64_t j = 0; j < 100; ++j) {
      EXPECT_TRUE(whole.at(i, j) == 0.0F || std::abs(whole.at(i, j) - 4.0F / 3) < 1e-6);
      kept += whole.at(i, j) > 0 ? 1 : 0;
    }
  EXPECT_NEAR(kept / 6400, 0.75, 4 * std::sqrt(0.75 * 0.25 / 6400));  // four deviations of a binomial
  key.first_row = 32;
  backend->dropout(part.tensor(), x.tensor().row_range(32, 32), key);
  for (std::int64_t j = 0; j < 100; ++j) EXPECT_EQ(part.at(3, j), whole.at(35, j));
}

}  // namespace
}  // namespace tpplan::testing
