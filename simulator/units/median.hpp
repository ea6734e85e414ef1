#pragma once

#include <algorithm>
#include <vector>

namespace tpplan {

/// The middle of the values in order, of an even number the upper of the two in the middle; zero of none.
template <class Value>
[[nodiscard]] Value median(std::vector<Value> values) {
  if (values.empty()) return Value{};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace tpplan
