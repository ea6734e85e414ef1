#include "executor/train/dataset.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "executor/train/mixing.hpp"

namespace tpplan {
namespace {

constexpr std::int32_t kMagic16 = 20240520, kMagic32 = 20240801;  // llm.c: GPT-2 and Llama 3 tokens
constexpr std::size_t kHeaderBytes = 256 * 4;

template <class T>
T read_at(std::span<const std::byte> bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& file) : path_(file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (descriptor < 0 || ::fstat(descriptor, &status) != 0)
    throw ConfigError(fmt::format("{}: cannot be read: {}", file.string(), std::strerror(errno)));
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor);
    throw ConfigError(fmt::format("{}: must be a plain file", file.string()));
  }
  size_ = static_cast<std::size_t>(status.st_size);
  void* mapped = size_ > 0 ? ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0) : nullptr;
  ::close(descriptor);
  if (mapped == MAP_FAILED)
    throw SystemError(fmt::format("{}: cannot be mapped: {}", file.string(), std::strerror(errno)));
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Dataset Dataset::open(const std::filesystem::path& file, TokenFormat format, std::int64_t vocabulary) {
  Dataset set(MappedFile(file), vocabulary);
  const std::span<const std::byte> bytes = set.file_.bytes();
  const std::string name = file.string();
  if (bytes.empty()) throw ConfigError(fmt::format("{}: is empty; training needs text or tokens", name));
  const std::int32_t magic = bytes.size() >= 4 ? read_at<std::int32_t>(bytes, 0) : 0;
  const bool header = magic == kMagic16 || magic == kMagic32;
  if (format == TokenFormat::automatic && file.extension() != ".bin") format = TokenFormat::bytes;
  if (format == TokenFormat::automatic)
    format = magic == kMagic32 ? TokenFormat::uint32 : TokenFormat::uint16;
  if (format == TokenFormat::bytes) {
    if (vocabulary < 256)
      throw ConfigError(
          fmt::format("{}: text is trained on byte by byte, which needs a vocabulary of 256; the "
                      "model has {}",
                      name, vocabulary));
    set.tokens_ = static_cast<std::int64_t>(bytes.size());
    return set;
  }
  set.width_ = format == TokenFormat::uint16 ? 2 : 4;
  const auto width = static_cast<std::size_t>(set.width_);
  if (header) {
    if ((magic == kMagic16) != (format == TokenFormat::uint16))
      throw ConfigError(fmt::format("{}: its header says {}-bit tokens", name, magic == kMagic16 ? 16 : 32));
    if (bytes.size() < kHeaderBytes)
      throw ConfigError(fmt::format("{}: is cut off inside its header of {} bytes", name, kHeaderBytes));
    const std::int32_t version = read_at<std::int32_t>(bytes, 4), expected = magic == kMagic16 ? 1 : 7;
    if (version != expected)
      throw ConfigError(fmt::format("{}: its header has version {}; {} is known", name, version, expected));
    if ((bytes.size() - kHeaderBytes) % width != 0)
      throw ConfigError(fmt::format("{}: {} bytes after its header are no whole number of {}-byte tokens",
                                    name, bytes.size() - kHeaderBytes, width));
    set.begin_ = kHeaderBytes;
    const auto promised = static_cast<std::size_t>(read_at<std::uint32_t>(bytes, 8));
    const std::size_t held = (bytes.size() - kHeaderBytes) / width;
    if (held < promised)
      throw ConfigError(
          fmt::format("{}: is cut off: its header promises {} tokens and it holds {}", name, promised, held));
    set.tokens_ = static_cast<std::int64_t>(promised);
  } else {
    if (bytes.size() % width != 0)
      throw ConfigError(
          fmt::format("{}: {} bytes are no whole number of {}-byte tokens", name, bytes.size(), width));
    set.tokens_ = static_cast<std::int64_t>(bytes.size() / width);
  }
  return set;
}

void Dataset::require(int sequence) const {
  if (tokens_ > sequence) return;
  throw ConfigError(fmt::format("{}: {} tokens are too few for one sample of {} and the token after it",
                                file_.path().string(), tokens_, sequence));
}

std::int64_t Dataset::token(std::int64_t index) const {
  const std::size_t at = begin_ + static_cast<std::size_t>(index * width_);
  const std::span<const std::byte> bytes = file_.bytes();
  if (width_ == 1) return static_cast<std::int64_t>(bytes[at]);
  return width_ == 2 ? read_at<std::uint16_t>(bytes, at) : read_at<std::uint32_t>(bytes, at);
}

void Dataset::sample(std::uint64_t seed, std::int64_t number, std::span<std::int32_t> out) const {
  const auto sequence = static_cast<std::int64_t>(out.size()) - 1;
  const std::int64_t windows = (tokens_ - 1) / sequence;
  const std::int64_t epoch = number / windows;
  const std::int64_t window = permuted(
      number % windows, windows, mixed(seed + static_cast<std::uint64_t>(epoch) * 0x9e3779b97f4a7c15ULL));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t index = window * sequence + static_cast<std::int64_t>(i);
    const std::int64_t found = token(index);
    if (found >= vocabulary_)
      throw ConfigError(fmt::format("{}: token {} is {}, but the model's vocabulary has {}",
                                    file_.path().string(), index, found, vocabulary_));
    out[i] = static_cast<std::int32_t>(found);
  }
}

double Dataset::unigram_entropy() const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(vocabulary_));
  for (std::int64_t i = 0; i < tokens_; ++i) {
    const auto found = static_cast<std::size_t>(token(i));
    if (found < counts.size()) ++counts[found];
  }
  double entropy = 0;
  for (const std::int64_t count : counts) {
    const double p = static_cast<double>(count) / static_cast<double>(tokens_);
    if (count > 0) entropy -= p * std::log(p);
  }
  return entropy;
}

std::int64_t permuted(std::int64_t index, std::int64_t n, std::uint64_t key) {
  if (n <= 1) return 0;
  const int half = (std::bit_width(static_cast<std::uint64_t>(n - 1)) + 1) / 2;
  const std::uint64_t mask = (1ULL << half) - 1;
  auto x = static_cast<std::uint64_t>(index);
  do {
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t left = x >> half, right = x & mask;
      x = right << half | (left ^ (mixed(right + key + round * 0x9e3779b97f4a7c15ULL) & mask));
    }
  } while (x >= static_cast<std::uint64_t>(n));
  return static_cast<std::int64_t>(x);
}

}  // namespace tpplan
