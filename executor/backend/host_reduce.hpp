#pragma once

#include <cstdint>
#include <span>

#include "executor/backend/communicator.hpp"
#include "executor/backend/tensor.hpp"

namespace tpplan {

/// Elements [first, last) of every `out` = sum or maximum of those of all `in`, in the order of `in`. 16-bit
/// formats are added in fp32 and rounded once. An out may be an in.
void reduce_elements(std::span<void* const> out, std::span<void* const> in, DType type, ReduceOp op,
                     std::int64_t first, std::int64_t last);

}  // namespace tpplan
