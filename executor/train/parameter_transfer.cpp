#include <algorithm>

#include "executor/train/parameter_store.hpp"

// Weights and optimizer state between a ParameterStore and published tensors, whatever the layout.

namespace tpplan {
namespace {

constexpr std::size_t index_of(std::int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

void ParameterStore::fill_share(Unit& unit, Tensor share, Tensor copy, const PartReader& read) {
  std::vector<float> host(index_of(unit.size));
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const Parameter& p = parameter(unit, i);
    for (const Part& part : p.parts) read(p, part, host.data() + p.offset + part.row * p.stride, p.stride);
  }
  rank_.backend.upload(share.data, host.data() + unit.first, unit.shard * 4);
  if (copy.data != nullptr) rank_.backend.copy(copy, share);
  if (!unit.weights || share.data == unit.first_moment.tensor.data ||
      share.data == unit.second_moment.tensor.data)
    return;
  // Everybody has read the whole unit: no need to gather it.
  const std::int64_t piece = std::min<std::int64_t>(unit.size, 1 << 20);
  const OwnedTensor staged = rank_.arena.matrix(DType::f32, 1, piece, MemoryCategory::workspace);
  for (std::int64_t at = 0; at < unit.size; at += piece) {
    const std::int64_t count = std::min(piece, unit.size - at);
    rank_.backend.upload(staged.tensor.data, host.data() + at, count * 4);
    rank_.backend.copy(unit.weights.tensor.slice(at, count), staged.tensor.slice(0, count));
    rank_.backend.synchronise();
  }
}

void ParameterStore::load(const PartReader& read) {
  for (Unit& unit : units_) fill_share(unit, unit.master_share(), unit.copy_share(), read);
}

void ParameterStore::load_moment(int which, const PartReader& read) {
  for (Unit& unit : units_)
    fill_share(unit, which == 0 ? unit.first_moment.tensor : unit.second_moment.tensor, {}, read);
}

void ParameterStore::visit_own(Field field, const PieceWriter& write) {
  if (zero_ == ZeroStage::none && rank_.at.dp != 0) return;
  for (const Unit& unit : units_) {
    const Tensor share = field == Field::weight         ? unit.master_share()
                         : field == Field::gradient     ? unit.gradient_share()
                         : field == Field::first_moment ? unit.first_moment.tensor
                                                        : unit.second_moment.tensor;
    std::vector<float> host(index_of(unit.shard));
    rank_.backend.download(host.data(), share.data, share.bytes());
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      const Parameter& p = parameter(unit, i);
      for (const Part& part : p.parts) {
        if (!part.counts) continue;
        for (std::int64_t r = 0; r < part.rows; ++r) {
          const std::int64_t line = p.offset + (part.row + r) * p.stride;
          const std::int64_t begin = std::max(line, unit.first);
          const std::int64_t end = std::min(line + p.cols, unit.first + unit.shard);
          if (begin >= end) continue;
          write(part, part.first_row + r, part.first_col + begin - line,
                {host.data() + (begin - unit.first), index_of(end - begin)});
        }
      }
    }
  }
}

}  // namespace tpplan
