#include "planner/workbench/option_values.hpp"

#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdexcept>
#include <string>

#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

[[noreturn]] void fail(std::string_view text, std::string_view right) {
  throw std::invalid_argument(fmt::format("'{}' must be {}", text, right));
}

/// The number that the whole text is; nothing when it is none, or does not fit the type.
template <class Number>
std::optional<Number> parsed(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.push_back(part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::optional<double> share_of(std::string_view text) {
  const bool percent = text.ends_with('%');
  std::optional<double> value = parsed<double>(percent ? text.substr(0, text.size() - 1) : text);
  if (value && percent) *value /= 100;
  if (!value || !(*value >= 0 && *value < 1)) return std::nullopt;
  return value;
}

std::optional<std::size_t> index_in(std::span<const std::string_view> names, std::string_view text) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == text) return i;
  return std::nullopt;
}

void check_integer(std::string_view text, std::int64_t lowest, std::int64_t highest) {
  const auto value = parsed<std::int64_t>(text);
  if (!value || *value < lowest || *value > highest)
    fail(text, fmt::format("a whole number from {} to {}", lowest, highest));
}

void check_number(std::string_view text, double lowest, double highest) {
  const auto value = parsed<double>(text);
  if (!value || !(*value >= lowest && *value <= highest))
    fail(text, fmt::format("a number from {} to {}", lowest, highest));
}

void check_share(std::string_view text) {
  if (!share_of(text)) fail(text, "a share from 0 to less than 1, such as 0.05 or 5%");
}

void check_choice(std::string_view text, std::span<const std::string_view> names) {
  if (index_in(names, text)) return;
  const std::vector<std::string> candidates(names.begin(), names.end());
  fail(text, fmt::format("one of {}{}", fmt::join(names, ", "), did_you_mean(text, candidates)));
}

int number(std::string_view text) {
  const auto value = parsed<int>(text);
  assert(value);
  return *value;
}

std::int64_t long_number(std::string_view text) {
  const auto value = parsed<std::int64_t>(text);
  assert(value);
  return *value;
}

double decimal(std::string_view text) {
  const auto value = parsed<double>(text);
  assert(value);
  return *value;
}

bool truth(std::string_view text) {
  const auto index = index_in(kTruthNames, text);
  assert(index);
  return *index % 2 == 1;
}

}  // namespace tpplan
