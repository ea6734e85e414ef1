#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/search/planner.hpp"

namespace tpplan {

/// One part of a step's time with its name in words.
struct Term {
  std::string_view name;
  Seconds Breakdown::*part;
};

/// The parts of a Breakdown in the order of the waterfall.
[[nodiscard]] const std::vector<Term>& breakdown_terms();

/// Why the first plan beats each of the next few: what differs in the plan, how much slower it is, and in
/// which terms.
[[nodiscard]] std::vector<std::string> reasons(const std::vector<RankedPlan>& plans,
                                               std::size_t alternatives = 3);

}  // namespace tpplan
