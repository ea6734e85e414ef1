#pragma once

#include "simulator/document/document.hpp"

namespace tpplan {

/// Quantities of hardware. Each refuses, by Value::fail, what no machine could have, so that no product or
/// quotient of them overflows: a rate of 1e300 GB/s is a slip, and a time computed from it would be 0.
[[nodiscard]] BytesPerSecond link_rate(const Value& value);     // 1 kB/s .. 1 EB/s
[[nodiscard]] Seconds link_latency(const Value& value);         // 0 .. 1 s
[[nodiscard]] Bytes capacity(const Value& value);               // 1 MiB .. 1 PiB
[[nodiscard]] FlopsPerSecond compute_rate(const Value& value);  // 1 MFLOP/s .. 1 ZFLOP/s

}  // namespace tpplan
