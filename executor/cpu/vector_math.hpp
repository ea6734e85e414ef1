#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "executor/backend/half.hpp"
#include "executor/backend/tensor.hpp"

// Pieces of the CPU kernels. Included by kernels.cpp alone, which is compiled once for each instruction set:
// everything here has internal linkage, so that no copy made for a newer processor is called on an older one.

namespace tpplan {
namespace {

/// e^x to 2e-7 relative, in operations that the compiler vectorises. Below -87 the result is about 1e-38.
[[gnu::always_inline]] inline float fast_exp(float x) {
  const float clamped = x < -87.0F ? -87.0F : (x > 88.0F ? 88.0F : x);
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
  const float shifted = clamped * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  // Taylor's series to r^7 in Horner's form; |r| <= ln 2 / 2.
  float p = 1.9841270e-4F;
  p = p * r + 1.3888889e-3F;
  p = p * r + 8.3333333e-3F;
  p = p * r + 4.1666667e-2F;
  p = p * r + 1.6666667e-1F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const std::uint32_t exponent =
      (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRound)) << 23;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + exponent);
}

[[gnu::always_inline]] inline float fast_tanh(float x) { return 1.0F - 2.0F / (1.0F + fast_exp(2.0F * x)); }
[[gnu::always_inline]] inline float sigmoid(float x) { return 1.0F / (1.0F + fast_exp(-x)); }

/// Uniform 24-bit number of a counter: the finaliser of splitmix64 (Steele, Lea & Flood 2014).
[[gnu::always_inline]] inline std::uint32_t random_bits(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t z = seed + (counter + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<std::uint32_t>((z ^ (z >> 31)) >> 40);
}

/// Calls f(row) for every row, on several threads when there is enough to do. `cost`: elements of a row.
template <class F>
[[gnu::always_inline]] inline void for_rows(std::int64_t rows, std::int64_t cost, F f) {
#pragma omp parallel for schedule(static) if (rows * cost > 16384 && rows > 1)
  for (std::int64_t r = 0; r < rows; ++r) f(r);
}

/// Calls f(first, last) for pieces of [0, count), each of at most `piece`.
template <class F>
[[gnu::always_inline]] inline void for_pieces(std::int64_t count, std::int64_t piece, std::int64_t cost,
                                              F f) {
  const std::int64_t pieces = (count + piece - 1) / piece;
#pragma omp parallel for schedule(static) if (count * cost > 16384 && pieces > 1)
  for (std::int64_t p = 0; p < pieces; ++p) {
    const std::int64_t first = p * piece;
    f(first, first + piece < count ? first + piece : count);
  }
}

/// Calls f with a null pointer of the element type.
template <class F>
[[gnu::always_inline]] inline void with_type(DType type, F f) {
  switch (type) {
    case DType::f32:
      return f(static_cast<float*>(nullptr));
    case DType::bf16:
      return f(static_cast<BFloat16*>(nullptr));
    case DType::f16:
      return f(static_cast<Float16*>(nullptr));
  }
}

template <class T>
[[gnu::always_inline]] inline T* row(Tensor x, std::int64_t r) {
  return static_cast<T*>(x.data) + r * x.stride;
}

/// Working memory of one thread; it grows and stays.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(data_); }
  [[nodiscard]] float* get(std::int64_t count) {
    if (count > size_) {
      std::free(data_);
      data_ =
          static_cast<float*>(std::aligned_alloc(64, static_cast<std::size_t>((count * 4 + 63) / 64 * 64)));
      if (data_ == nullptr) std::abort();
      size_ = count;
    }
    return data_;
  }

 private:
  float* data_ = nullptr;
  std::int64_t size_ = 0;
};

}  // namespace
}  // namespace tpplan
