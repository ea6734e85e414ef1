#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tpplan {

/// Number formats of the matrix products. fp8 and nvfp4 have rates in the device files already; plans in them
/// are refused until their scaling and casts are priced.
enum class Precision { fp32, tf32, fp16, bf16, fp8, nvfp4 };

inline constexpr std::array<std::string_view, 6> kPrecisionNames{"fp32", "tf32", "fp16",
                                                                 "bf16", "fp8",  "nvfp4"};

constexpr std::string_view name(Precision p) { return kPrecisionNames[static_cast<std::size_t>(p)]; }

/// Bytes of one activation or weight element as the products read it.
constexpr double element_bytes(Precision p) {
  switch (p) {
    case Precision::fp32:
    case Precision::tf32:
      return 4;
    case Precision::fp16:
    case Precision::bf16:
      return 2;
    case Precision::fp8:
      return 1;
    case Precision::nvfp4:
      return 0.5625;  // 4 bits and one fp8 scale for 16 elements
  }
  return 2;
}

}  // namespace tpplan
