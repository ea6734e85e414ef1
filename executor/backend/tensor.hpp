#pragma once

#include <cstddef>
#include <cstdint>

#include "simulator/units/precision.hpp"

namespace tpplan {

/// Formats of elements in memory. Products accumulate in fp32 whatever the format.
enum class DType : std::uint8_t { f32, bf16, f16 };

constexpr std::int64_t element_size(DType type) { return type == DType::f32 ? 4 : 2; }

constexpr DType dtype_of(Precision precision) {
  return precision == Precision::bf16 ? DType::bf16 : precision == Precision::fp16 ? DType::f16 : DType::f32;
}

/// A matrix in a backend's memory that somebody else owns: `rows` x `cols` elements, row-major, rows `stride`
/// elements apart. A vector has one row.
struct Tensor {
  void* data = nullptr;
  DType type = DType::f32;
  std::int64_t rows = 0, cols = 0;
  std::int64_t stride = 0;

  [[nodiscard]] std::int64_t count() const { return rows * cols; }
  [[nodiscard]] bool contiguous() const { return stride == cols || rows <= 1; }
  [[nodiscard]] std::int64_t bytes() const { return count() * element_size(type); }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data);
  }
  /// `count` rows from row `first`.
  [[nodiscard]] Tensor row_range(std::int64_t first, std::int64_t count) const {
    return {static_cast<std::byte*>(data) + first * stride * element_size(type), type, count, cols, stride};
  }
  /// `count` columns from column `first`.
  [[nodiscard]] Tensor col_range(std::int64_t first, std::int64_t count) const {
    return {static_cast<std::byte*>(data) + first * element_size(type), type, rows, count, stride};
  }
  /// The same elements of a contiguous tensor in one row.
  [[nodiscard]] Tensor flat() const { return {data, type, 1, count(), count()}; }
  /// Elements [first, first + count) of a contiguous tensor, in one row.
  [[nodiscard]] Tensor slice(std::int64_t first, std::int64_t count) const {
    return {static_cast<std::byte*>(data) + first * element_size(type), type, 1, count, count};
  }
};

/// Elements from row to row: rows whose length is a multiple of a page make products miss the caches, so a
/// line is added.
constexpr std::int64_t padded_stride(std::int64_t cols) {
  return cols >= 1024 && cols % 512 == 0 ? cols + 16 : cols;
}

[[nodiscard]] inline Tensor matrix(void* data, DType type, std::int64_t rows, std::int64_t cols,
                                   std::int64_t stride = 0) {
  return {data, type, rows, cols, stride > 0 ? stride : cols};
}
[[nodiscard]] inline Tensor vector(void* data, DType type, std::int64_t count) {
  return {data, type, 1, count, count};
}

}  // namespace tpplan
