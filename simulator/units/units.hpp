#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace tpplan {

/// A number with a dimension. Two dimensions never mix; only the operations below cross them.
template <class Dimension>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}

  /// The number in the base unit: bytes, seconds, bytes per second, FLOPs, FLOPs per second.
  [[nodiscard]] constexpr double value() const { return value_; }

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity b) { return value_ += b.value_, *this; }
  constexpr Quantity& operator-=(Quantity b) { return value_ -= b.value_, *this; }
  constexpr Quantity& operator*=(double k) { return value_ *= k, *this; }

  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity{a.value_ + b.value_}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity{a.value_ - b.value_}; }
  friend constexpr Quantity operator*(Quantity a, double k) { return Quantity{a.value_ * k}; }
  friend constexpr Quantity operator*(double k, Quantity a) { return Quantity{a.value_ * k}; }
  friend constexpr Quantity operator/(Quantity a, double k) { return Quantity{a.value_ / k}; }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }

 private:
  double value_ = 0;
};

using Bytes = Quantity<struct BytesDimension>;
using Seconds = Quantity<struct SecondsDimension>;
using BytesPerSecond = Quantity<struct BytesPerSecondDimension>;
using Flops = Quantity<struct FlopsDimension>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondDimension>;

constexpr Seconds operator/(Bytes n, BytesPerSecond rate) { return Seconds{n.value() / rate.value()}; }
constexpr Seconds operator/(Flops n, FlopsPerSecond rate) { return Seconds{n.value() / rate.value()}; }
constexpr BytesPerSecond operator/(Bytes n, Seconds t) { return BytesPerSecond{n.value() / t.value()}; }
constexpr FlopsPerSecond operator/(Flops n, Seconds t) { return FlopsPerSecond{n.value() / t.value()}; }
constexpr Bytes operator*(BytesPerSecond rate, Seconds t) { return Bytes{rate.value() * t.value()}; }

constexpr Bytes gibibytes(double n) { return Bytes{n * 1024 * 1024 * 1024}; }
constexpr Bytes mebibytes(double n) { return Bytes{n * 1024 * 1024}; }
constexpr Seconds milliseconds(double n) { return Seconds{n * 1e-3}; }
constexpr Seconds microseconds(double n) { return Seconds{n * 1e-6}; }
constexpr BytesPerSecond gigabytes_per_second(double n) { return BytesPerSecond{n * 1e9}; }
constexpr FlopsPerSecond teraflops(double n) { return FlopsPerSecond{n * 1e12}; }

/// Parse "80 GiB", "25 MB": decimal (kB MB GB TB) and binary (KiB MiB GiB TiB) prefixes.
/// All parsers need the unit, refuse NaN, infinities and negative numbers, and throw std::invalid_argument
/// with a message that says what would be right.
[[nodiscard]] Bytes parse_bytes(std::string_view text);
/// Parse "1.2 us", "3 ms", "2 s", "250 ns".
[[nodiscard]] Seconds parse_seconds(std::string_view text);
/// Parse "300 GB/s" or "200 Gbit/s" (one eighth of it in bytes).
[[nodiscard]] BytesPerSecond parse_bandwidth(std::string_view text);
/// Parse "312 TFLOP/s".
[[nodiscard]] FlopsPerSecond parse_flops_rate(std::string_view text);

/// Print with three significant digits and the fitting prefix: "74.2 GiB", "1.85 s", "300 GB/s", "312
/// TFLOP/s".
[[nodiscard]] std::string to_string(Bytes n);
[[nodiscard]] std::string to_string(Seconds t);
[[nodiscard]] std::string to_string(BytesPerSecond rate);
[[nodiscard]] std::string to_string(FlopsPerSecond rate);
/// "9.83B", "124M", "50.3k": counts of parameters, tokens and FLOPs.
[[nodiscard]] std::string count_to_string(double n);

}  // namespace tpplan
