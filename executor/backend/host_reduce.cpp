#include "executor/backend/host_reduce.hpp"

#include <algorithm>
#include <array>

#include "executor/backend/half.hpp"

namespace tpplan {
namespace {

constexpr std::int64_t kPiece = 1024;  // elements: the fp32 sums stay in the first-level cache

template <class T>
void reduce(std::span<void* const> out, std::span<void* const> in, ReduceOp op, std::int64_t first,
            std::int64_t last) {
  std::array<float, kPiece> sums;
  for (std::int64_t begin = first; begin < last; begin += kPiece) {
    const std::int64_t n = std::min(kPiece, last - begin);
    const T* from = static_cast<const T*>(in[0]) + begin;
    for (std::int64_t i = 0; i < n; ++i) sums[static_cast<std::size_t>(i)] = to_float(from[i]);
    for (std::size_t k = 1; k < in.size(); ++k) {
      from = static_cast<const T*>(in[k]) + begin;
      if (op == ReduceOp::sum)
        for (std::int64_t i = 0; i < n; ++i) sums[static_cast<std::size_t>(i)] += to_float(from[i]);
      else
        for (std::int64_t i = 0; i < n; ++i)
          sums[static_cast<std::size_t>(i)] = std::max(sums[static_cast<std::size_t>(i)], to_float(from[i]));
    }
    for (void* to : out)
      for (std::int64_t i = 0; i < n; ++i)
        (static_cast<T*>(to) + begin)[i] = from_float<T>(sums[static_cast<std::size_t>(i)]);
  }
}

}  // namespace

void reduce_elements(std::span<void* const> out, std::span<void* const> in, DType type, ReduceOp op,
                     std::int64_t first, std::int64_t last) {
  switch (type) {
    case DType::f32:
      return reduce<float>(out, in, op, first, last);
    case DType::bf16:
      return reduce<BFloat16>(out, in, op, first, last);
    case DType::f16:
      return reduce<Float16>(out, in, op, first, last);
  }
}

}  // namespace tpplan
