#pragma once

#include <bit>
#include <cstdint>

// 16-bit formats in plain integer arithmetic, so that loops over them are vectorised and every machine can
// run them. Rounding is to nearest, ties to even.

namespace tpplan {

struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

[[gnu::always_inline]] inline float to_float(float x) { return x; }
[[gnu::always_inline]] inline float to_float(BFloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

/// Subnormal numbers are normalised by adding and taking away 2^-14: a product with a subnormal fp32 number
/// would be zero where those are flushed.
[[gnu::always_inline]] inline float to_float(Float16 x) {
  const std::uint32_t magnitude = (x.bits & 0x7fffU) << 13;
  const float small = std::bit_cast<float>(magnitude | 0x38800000U) - std::bit_cast<float>(0x38800000U);
  const std::uint32_t bits = magnitude >= 0x0f800000U  ? (magnitude | 0x7f800000U)  // infinity, not a number
                             : magnitude < 0x00800000U ? std::bit_cast<std::uint32_t>(small)
                                                       : magnitude + 0x38000000U;
  return std::bit_cast<float>(bits | (x.bits & 0x8000U) << 16);
}

template <class T>
T from_float(float x);

template <>
[[gnu::always_inline]] inline float from_float<float>(float x) {
  return x;
}

template <>
[[gnu::always_inline]] inline BFloat16 from_float<BFloat16>(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1U)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40U;
  return {static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded)};
}

template <>
[[gnu::always_inline]] inline Float16 from_float<Float16>(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000U) {
    half = 0x7e00U;
  } else if (magnitude >= 0x47800000U) {  // 65536 and more
    half = 0x7c00U;
  } else if (magnitude < 0x38800000U) {  // below 2^-14: subnormal, rounded by an addition of 0.5
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    half = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U;
  } else {
    half = (magnitude - 0x38000000U + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | half)};
}

}  // namespace tpplan
