#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/train/dataset.hpp"
#include "executor/train/parameters.hpp"
#include "executor/train/safetensors.hpp"

namespace tpplan {

/// Published tensors of one model in safetensors files that every rank writes its pieces into. The files and
/// their layout follow from the model alone, so no rank needs another's pieces.
class TensorFileWriter {
 public:
  /// `prefix` of the file names: "model" gives model.safetensors, or model-00001-of-00003.safetensors with an
  /// index where more than a file's worth is saved. Tensors are fp32.
  TensorFileWriter(std::filesystem::path folder, std::string prefix, const ModelSpec& model);

  /// Creates the files at their full size, headers written. For one rank, before the others open them. Throws
  /// SystemError when the disk is full.
  void create() const;
  /// Opens them for writing. On another host that fails unless the folder is on a shared file system.
  void open();
  /// Elements (row, col ..) of a tensor as [out][in], wherever the file holds them.
  void write(const Part& part, std::int64_t row, std::int64_t col, std::span<const float> values);
  /// Puts what was written on the disk.
  void close();

  [[nodiscard]] std::vector<std::filesystem::path> files() const;

 private:
  struct File {
    std::filesystem::path path;
    std::vector<TensorInfo> tensors;
    std::string header;
    std::size_t size = 0;
    std::byte* data = nullptr;
  };
  std::vector<File> files_;
  std::map<std::string, std::pair<std::size_t, std::size_t>> places_;  // file, tensor
  std::filesystem::path folder_;
  std::string prefix_;
};

/// Published tensors read from a safetensors file, or from a folder of them with or without an index.
class TensorFiles {
 public:
  /// Throws ConfigError when there is none, or one is damaged. `prefix` empty: every *.safetensors.
  explicit TensorFiles(const std::filesystem::path& file_or_folder, const std::string& prefix = {});

  /// Throws ConfigError naming the first tensor of the model that is missing or has another shape.
  void require(const ModelSpec& model) const;
  /// All of one tensor as fp32, as the file holds it.
  [[nodiscard]] std::vector<float> whole(const std::string& name) const;
  /// The block of a published tensor that is `part` of a parameter with `cols` columns, as fp32 [out][in].
  void read(const Parameter& parameter, const Part& part, float* to, std::int64_t stride) const;

 private:
  struct Source {
    const MappedFile* file = nullptr;
    TensorInfo info;
    std::uint64_t offset = 0;  // of the tensor in the file
  };
  [[nodiscard]] const Source* find(const std::string& name) const;

  std::string given_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::map<std::string, Source> tensors_;
};

/// CRC-32C (Castagnoli) of a file.
[[nodiscard]] std::uint32_t file_checksum(const std::filesystem::path& file);
[[nodiscard]] std::uint32_t checksum(std::span<const std::byte> bytes);

}  // namespace tpplan
