#include "simulator/topology/ranges.hpp"

#include <fmt/format.h>

namespace tpplan {
namespace {

template <class Quantity>
Quantity within(const Value& value, Quantity given, double lowest, double highest, std::string_view range) {
  if (!(given.value() >= lowest && given.value() <= highest))
    value.fail(fmt::format("'{}' is outside {}", value.text(), range));
  return given;
}

}  // namespace

BytesPerSecond link_rate(const Value& value) {
  return within(value, value.bandwidth(), 1e3, 1e18, "1 kB/s .. 1,000,000 TB/s");
}

Seconds link_latency(const Value& value) { return within(value, value.seconds(), 0, 1, "0 .. 1 s"); }

Bytes capacity(const Value& value) {
  return within(value, value.bytes(), mebibytes(1).value(), mebibytes(1U << 30U).value(),
                "1 MiB .. 1024 TiB");
}

FlopsPerSecond compute_rate(const Value& value) {
  return within(value, value.flops_rate(), 1e6, 1e21, "1 MFLOP/s .. 1,000,000 PFLOP/s");
}

}  // namespace tpplan
