#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "simulator/plan/training_job.hpp"

namespace tpplan {

/// A file in memory as far as it is read. Throws ConfigError when it cannot be opened or is no plain file.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& file);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  [[nodiscard]] std::span<const std::byte> bytes() const { return {data_, size_}; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Tokens to train on: a text of bytes, or 16- or 32-bit numbers, raw or after the header of llm.c
/// (github.com/karpathy/llm.c, dataloader.h: 256 int32, of which a magic number, a version and the count).
class Dataset {
 public:
  /// `automatic`: files named .bin are tokens, by their header or else 16-bit; others are text. Throws
  /// ConfigError for a file that is empty, cut off or not made of tokens, and for a vocabulary that cannot
  /// hold bytes.
  [[nodiscard]] static Dataset open(const std::filesystem::path& file, TokenFormat format,
                                    std::int64_t vocabulary);

  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  /// Throws ConfigError when not even one sample fits.
  void require(int sequence) const;

  /// Tokens [w s, w s + s] of one of the (tokens - 1) / s windows. The first sample of each epoch to its last
  /// visit every window once, in an order given by seed and epoch. `number` counts samples over the whole
  /// training. Throws ConfigError for a token outside the vocabulary.
  void sample(std::uint64_t seed, std::int64_t number, std::span<std::int32_t> out) const;

  /// -sum p ln p over the tokens' own frequencies: the loss of the best guess that knows no context. Reads
  /// the whole file.
  [[nodiscard]] double unigram_entropy() const;

 private:
  Dataset(MappedFile file, std::int64_t vocabulary) : file_(std::move(file)), vocabulary_(vocabulary) {}
  [[nodiscard]] std::int64_t token(std::int64_t index) const;

  MappedFile file_;
  std::int64_t vocabulary_;
  std::int64_t width_ = 1;  // bytes of a token
  std::size_t begin_ = 0;   // of the first token in the file
  std::int64_t tokens_ = 0;
};

/// A permutation of [0, n) given by a key, without memory: a Feistel network over the next power of four,
/// walked until it lands inside (Black & Rogaway 2002).
[[nodiscard]] std::int64_t permuted(std::int64_t index, std::int64_t n, std::uint64_t key);

}  // namespace tpplan
