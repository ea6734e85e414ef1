#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace tpplan {

/// Writes scalars as TensorBoard reads them: records of TFRecord, each an Event message
/// (tensorflow/core/util/ event.proto) with one scalar.
class TensorboardWriter {
 public:
  /// Creates events.out.tfevents.<seconds>.<host>.<process> in the folder. Throws SystemError, as do the
  /// others when the disk is full.
  explicit TensorboardWriter(const std::filesystem::path& folder);
  void scalar(std::string_view tag, std::int64_t step, double value);
  void flush() { out_.flush(); }

 private:
  void record(std::string_view message);
  std::ofstream out_;
};

}  // namespace tpplan
