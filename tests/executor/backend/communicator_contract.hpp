#pragma once

#include "executor/backend/communicator.hpp"

namespace tpplan::testing {

/// What every communicator must do, run by all ranks together (4 or more). Values are small whole numbers, so
/// that sums are exact in every format and order. Returns what is wrong on this rank; empty when all is
/// right.
[[nodiscard]] std::vector<std::string> communicator_contract(Communicator& world);

}  // namespace tpplan::testing
