#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace tpplan {

/// A tensor in a safetensors file (huggingface.co/docs/safetensors: a 64-bit length, a JSON header, the
/// data). Offsets count from the beginning of the data.
struct TensorInfo {
  std::string name;
  std::string dtype;  // "F32", "BF16", "F16", ..
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;
  [[nodiscard]] std::int64_t count() const;
};

struct SafetensorsHeader {
  std::map<std::string, TensorInfo> tensors;
  std::uint64_t data_offset = 0;  // of the data in the file
};

/// Reads and checks a header. `bytes`: of the whole file. A file that is cut off, or whose offsets overlap or
/// do not fit shapes and formats, is a ConfigError that names `file`.
[[nodiscard]] SafetensorsHeader read_safetensors_header(const std::string& file,
                                                        std::span<const std::byte> bytes);

/// Lays the tensors out one after another (sets begin and end) and returns the bytes that stand before the
/// data, whose length is a multiple of 64.
[[nodiscard]] std::string safetensors_header(std::vector<TensorInfo>& tensors);

/// Bytes of an element; 0 for a format that is not known.
[[nodiscard]] std::uint64_t dtype_bytes(std::string_view dtype);

}  // namespace tpplan
