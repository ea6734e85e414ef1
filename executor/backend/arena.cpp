#include "executor/backend/arena.hpp"

#include <utility>

namespace tpplan {

void Buffer::reset() {
  if (arena_ != nullptr) arena_->give_back(data_, bytes_, category_);
  arena_ = nullptr;
  data_ = nullptr;
}

Arena::~Arena() {
  for (const auto& [size, data] : free_) backend_.release(data, size);
}

Buffer Arena::allocate(std::int64_t bytes, MemoryCategory category) {
  const std::int64_t size = (bytes + 63) / 64 * 64;
  void* data = nullptr;
  // A kept block serves when no more than an eighth of it is lost.
  if (const auto found = free_.lower_bound(size); found != free_.end() && found->first <= size + size / 8) {
    data = found->second;
    free_.erase(found);
  } else {
    data = backend_.allocate(size);
    sizes_[data] = size;
    reserved_ += size;
  }
  live_[static_cast<std::size_t>(category)] += size;
  total_ += size;
  if (total_ > highest_) {
    highest_ = total_;
    for (std::size_t i = 0; i < live_.size(); ++i) peak_.bytes[i] = Bytes{static_cast<double>(live_[i])};
  }
  return {*this, data, size, category};
}

OwnedTensor Arena::matrix(DType type, std::int64_t rows, std::int64_t cols, MemoryCategory category,
                          std::int64_t stride) {
  const std::int64_t width = stride > 0 ? stride : cols;
  OwnedTensor owned;
  owned.memory = allocate(rows * width * element_size(type), category);
  owned.tensor = tpplan::matrix(owned.memory.data(), type, rows, cols, width);
  return owned;
}

void Arena::give_back(void* data, std::int64_t bytes, MemoryCategory category) {
  live_[static_cast<std::size_t>(category)] -= bytes;
  total_ -= bytes;
  free_.emplace(sizes_.at(data), data);
}

}  // namespace tpplan
