#include "simulator/units/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <span>
#include <stdexcept>

namespace tpplan {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array kByteUnits{Unit{"B", 1},        Unit{"kB", 1e3},     Unit{"MB", 1e6},
                                Unit{"GB", 1e9},     Unit{"TB", 1e12},    Unit{"KiB", 1024.},
                                Unit{"MiB", 0x1p20}, Unit{"GiB", 0x1p30}, Unit{"TiB", 0x1p40}};
constexpr std::array kSecondUnits{Unit{"s", 1}, Unit{"ms", 1e-3}, Unit{"us", 1e-6}, Unit{"ns", 1e-9}};
constexpr std::array kBandwidthUnits{Unit{"B/s", 1},          Unit{"kB/s", 1e3},      Unit{"MB/s", 1e6},
                                     Unit{"GB/s", 1e9},       Unit{"TB/s", 1e12},     Unit{"GiB/s", 0x1p30},
                                     Unit{"Mbit/s", 1e6 / 8}, Unit{"Gbit/s", 1e9 / 8}};
constexpr std::array kFlopsUnits{Unit{"FLOP/s", 1}, Unit{"GFLOP/s", 1e9}, Unit{"TFLOP/s", 1e12},
                                 Unit{"PFLOP/s", 1e15}};

double parse(std::string_view text, std::span<const Unit> units, std::string_view example) {
  const auto fail = [&](std::string_view why) {
    throw std::invalid_argument(fmt::format("'{}' {}; write it as '{}'", text, why, example));
  };
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{}) fail("is not a number with a unit");
  if (!std::isfinite(number) || number < 0) fail("is not a finite number of zero or more");
  std::string_view name(rest, static_cast<std::size_t>(end - rest));
  while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  if (name.empty()) fail("has no unit");
  for (const Unit& unit : units)
    if (unit.name == name) return number * unit.factor;
  fail(fmt::format("has the unknown unit '{}'", name));
  return 0;
}

std::string print(double value, std::span<const Unit> ascending) {
  const Unit* best = &ascending.front();
  for (const Unit& unit : ascending)
    if (std::abs(value) >= unit.factor * 0.9995) best = &unit;
  const double scaled = value / best->factor;
  const int decimals = std::abs(scaled) < 9.995 ? 2 : std::abs(scaled) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", scaled, decimals, best->name);
}

}  // namespace

Bytes parse_bytes(std::string_view text) { return Bytes{parse(text, kByteUnits, "80 GiB")}; }
Seconds parse_seconds(std::string_view text) { return Seconds{parse(text, kSecondUnits, "1.2 us")}; }
BytesPerSecond parse_bandwidth(std::string_view text) {
  return BytesPerSecond{parse(text, kBandwidthUnits, "300 GB/s")};
}
FlopsPerSecond parse_flops_rate(std::string_view text) {
  return FlopsPerSecond{parse(text, kFlopsUnits, "312 TFLOP/s")};
}

std::string to_string(Bytes n) {
  constexpr std::array units{Unit{"B", 1}, Unit{"KiB", 0x1p10}, Unit{"MiB", 0x1p20}, Unit{"GiB", 0x1p30},
                             Unit{"TiB", 0x1p40}};
  return print(n.value(), units);
}
std::string to_string(Seconds t) {
  constexpr std::array units{Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1}};
  return std::abs(t.value()) < 0.5e-9 ? "0 s" : print(t.value(), units);
}
std::string to_string(BytesPerSecond rate) {
  constexpr std::array units{Unit{"B/s", 1}, Unit{"kB/s", 1e3}, Unit{"MB/s", 1e6}, Unit{"GB/s", 1e9},
                             Unit{"TB/s", 1e12}};
  return print(rate.value(), units);
}
std::string to_string(FlopsPerSecond rate) {
  constexpr std::array units{Unit{"FLOP/s", 1}, Unit{"GFLOP/s", 1e9}, Unit{"TFLOP/s", 1e12},
                             Unit{"PFLOP/s", 1e15}};
  return print(rate.value(), units);
}
std::string count_to_string(double n) {
  constexpr std::array units{Unit{"", 1}, Unit{"k", 1e3}, Unit{"M", 1e6}, Unit{"B", 1e9}, Unit{"T", 1e12}};
  const Unit* best = &units.front();
  for (const Unit& unit : units)
    if (std::abs(n) >= unit.factor * 0.9995) best = &unit;
  const double scaled = n / best->factor;
  if (best->factor == 1) return fmt::format("{:.0f}", scaled);
  return fmt::format("{:.{}f}{}", scaled, scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0, best->name);
}

}  // namespace tpplan
