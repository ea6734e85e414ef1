#pragma once

#include "executor/backend/backend.hpp"

namespace tpplan {

/// The CPU backend with kernels for one instruction set: any processor, x86-64-v3 (AVX2), x86-64-v4
/// (AVX-512). The caller owns the result and has checked that the processor can run it.
[[nodiscard]] Backend* kernels_base(int threads);
[[nodiscard]] Backend* kernels_v3(int threads);
[[nodiscard]] Backend* kernels_v4(int threads);

}  // namespace tpplan
