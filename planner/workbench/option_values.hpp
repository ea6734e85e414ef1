#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tpplan {

/// Spellings of false and true in turns.
inline constexpr std::array<std::string_view, 6> kTruthNames{"false", "true", "off", "on", "no", "yes"};
inline constexpr std::array<std::string_view, 4> kZeroNames{"0", "1", "2", "3"};

/// "a, b" as its parts without blanks around them; a text without comma is one part.
[[nodiscard]] std::vector<std::string_view> parts_of(std::string_view text);

/// "0.05" or "5%" as a share; nothing outside [0, 1).
[[nodiscard]] std::optional<double> share_of(std::string_view text);

/// The place of the text among the names.
[[nodiscard]] std::optional<std::size_t> index_in(std::span<const std::string_view> names,
                                                  std::string_view text);

/// These throw std::invalid_argument with what would be right.
void check_integer(std::string_view text, std::int64_t lowest, std::int64_t highest);
void check_number(std::string_view text, double lowest, double highest);
void check_share(std::string_view text);
void check_choice(std::string_view text, std::span<const std::string_view> names);

/// The readers below are given texts that were checked.
[[nodiscard]] int number(std::string_view text);
[[nodiscard]] std::int64_t long_number(std::string_view text);
[[nodiscard]] double decimal(std::string_view text);
[[nodiscard]] bool truth(std::string_view text);

template <class Enum>
[[nodiscard]] Enum chosen(std::span<const std::string_view> names, std::string_view text) {
  const auto index = index_in(names, text);
  assert(index);
  return static_cast<Enum>(*index);
}

template <class Enum>
[[nodiscard]] std::vector<Enum> all_chosen(std::span<const std::string_view> names, std::string_view text) {
  std::vector<Enum> values;
  for (const std::string_view part : parts_of(text)) values.push_back(chosen<Enum>(names, part));
  return values;
}

}  // namespace tpplan
