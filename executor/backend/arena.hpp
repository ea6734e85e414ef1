#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "executor/backend/backend.hpp"
#include "simulator/memory/memory_report.hpp"

namespace tpplan {

class Arena;

/// Memory from an Arena, given back when it goes.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Arena& arena, void* data, std::int64_t bytes, MemoryCategory category)
      : arena_(&arena), data_(data), bytes_(bytes), category_(category) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() { reset(); }
  void reset();

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(arena_, other.arena_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(category_, other.category_);
  }
  Arena* arena_ = nullptr;
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
  MemoryCategory category_ = MemoryCategory::workspace;
};

/// A tensor that owns its memory.
struct OwnedTensor {
  Buffer memory;
  Tensor tensor;
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(memory); }
  void reset() {
    memory.reset();
    tensor = {};
  }
};

/// Memory of one rank by category. Blocks that come back are kept by size and handed out again, so that a
/// step after the first allocates nothing. For the rank's own thread only.
class Arena {
 public:
  explicit Arena(Backend& backend) : backend_(backend) {}
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  [[nodiscard]] Buffer allocate(std::int64_t bytes, MemoryCategory category);
  [[nodiscard]] OwnedTensor matrix(DType type, std::int64_t rows, std::int64_t cols, MemoryCategory category,
                                   std::int64_t stride = 0);

  /// Bytes handed out, by category, at the instant when their sum was highest.
  [[nodiscard]] const StageMemory& peak() const { return peak_; }
  [[nodiscard]] std::int64_t peak_bytes() const { return highest_; }
  /// Bytes taken from the backend, kept blocks included.
  [[nodiscard]] std::int64_t reserved_bytes() const { return reserved_; }

 private:
  friend class Buffer;
  void give_back(void* data, std::int64_t bytes, MemoryCategory category);

  Backend& backend_;
  std::multimap<std::int64_t, void*> free_;  // by size
  std::map<void*, std::int64_t> sizes_;      // of all blocks
  std::array<std::int64_t, kMemoryCategoryNames.size()> live_{};
  std::int64_t total_ = 0, highest_ = 0, reserved_ = 0;
  StageMemory peak_;
};

}  // namespace tpplan
