#include "executor/train/tensor_files.hpp"

#include <algorithm>
#include <boost/crc.hpp>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include "executor/backend/half.hpp"
#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

constexpr std::uint64_t kFileBytes = 4ULL << 30;

[[noreturn]] void fail(const std::filesystem::path& file, const char* what) {
  throw SystemError(fmt::format("{}: {}: {}", file.string(), what, std::strerror(errno)));
}

/// A descriptor that is closed when it goes.
class Descriptor {
 public:
  Descriptor(const std::filesystem::path& file, int flags, const char* what)
      : number_(::open(file.c_str(), flags | O_CLOEXEC, 0644)) {
    if (number_ < 0) fail(file, what);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(number_); }
  [[nodiscard]] int get() const { return number_; }

 private:
  int number_;
};

/// Transformers writes GPT-2 without the prefix of its base model.
std::string without_prefix(const std::string& name) {
  for (const std::string_view prefix : {"transformer.", "model."})
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  return name;
}

float element(const TensorInfo& info, const std::byte* at) {
  std::uint16_t half = 0;
  float whole = 0;
  if (info.dtype == "F32") {
    std::memcpy(&whole, at, sizeof(whole));
    return whole;
  }
  std::memcpy(&half, at, sizeof(half));
  return info.dtype == "BF16" ? to_float(BFloat16{half}) : to_float(Float16{half});
}

}  // namespace

TensorFileWriter::TensorFileWriter(std::filesystem::path folder, std::string prefix, const ModelSpec& model)
    : folder_(std::move(folder)), prefix_(std::move(prefix)) {
  std::uint64_t size = kFileBytes;
  for (const PublishedTensor& tensor : published_tensors(model)) {
    TensorInfo info{.name = tensor.name, .dtype = "F32", .shape = tensor.shape};
    const auto bytes = static_cast<std::uint64_t>(info.count()) * 4;
    if (size + bytes > kFileBytes) {
      files_.emplace_back();
      size = 0;
    }
    size += bytes;
    places_[tensor.name] = {files_.size() - 1, files_.back().tensors.size()};
    files_.back().tensors.push_back(std::move(info));
  }
  for (std::size_t i = 0; i < files_.size(); ++i) {
    File& file = files_[i];
    file.path = folder_ / (files_.size() == 1
                               ? fmt::format("{}.safetensors", prefix_)
                               : fmt::format("{}-{:05}-of-{:05}.safetensors", prefix_, i + 1, files_.size()));
    file.header = safetensors_header(file.tensors);
    file.size = file.header.size() + file.tensors.back().end;
  }
}

void TensorFileWriter::create() const {
  for (const File& file : files_) {
    const Descriptor out(file.path, O_RDWR | O_CREAT | O_TRUNC, "cannot be created");
    // Space is taken now: a full disk would otherwise end the process at some later store.
    if (const int error = ::posix_fallocate(out.get(), 0, static_cast<off_t>(file.size)); error != 0) {
      errno = error;
      fail(file.path, "cannot be given its size");
    }
    if (::pwrite(out.get(), file.header.data(), file.header.size(), 0) !=
        static_cast<ssize_t>(file.header.size()))
      fail(file.path, "cannot be written");
  }
  if (files_.size() == 1) return;
  nlohmann::json index;
  std::uint64_t total = 0;
  for (const File& file : files_)
    for (const TensorInfo& tensor : file.tensors) {
      index["weight_map"][tensor.name] = file.path.filename().string();
      total += tensor.end - tensor.begin;
    }
  index["metadata"] = {{"total_size", total}};
  write_file(folder_ / (prefix_ + ".safetensors.index.json"), index.dump(2));
}

void TensorFileWriter::open() {
  for (File& file : files_) {
    const Descriptor out(file.path, O_RDWR, "cannot be opened (is the folder shared by all hosts?)");
    void* mapped = ::mmap(nullptr, file.size, PROT_READ | PROT_WRITE, MAP_SHARED, out.get(), 0);
    if (mapped == MAP_FAILED) fail(file.path, "cannot be mapped");
    file.data = static_cast<std::byte*>(mapped);
  }
}

void TensorFileWriter::write(const Part& part, std::int64_t row, std::int64_t col,
                             std::span<const float> values) {
  const auto& [index, place] = places_.at(part.tensor);
  const File& file = files_[index];
  std::byte* tensor = file.data + file.header.size() + file.tensors[place].begin;
  if (!part.transposed) {
    const std::int64_t width = std::max<std::int64_t>(1, part.tensor_cols);
    std::memcpy(tensor + (row * width + col) * 4, values.data(), values.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    std::memcpy(tensor + ((col + static_cast<std::int64_t>(i)) * part.tensor_rows + row) * 4, &values[i], 4);
}

void TensorFileWriter::close() {
  for (File& file : files_) {
    if (::msync(file.data, file.size, MS_SYNC) != 0) fail(file.path, "cannot be written to the disk");
    ::munmap(file.data, file.size);
    file.data = nullptr;
  }
}

std::vector<std::filesystem::path> TensorFileWriter::files() const {
  std::vector<std::filesystem::path> paths;
  for (const File& file : files_) paths.push_back(file.path);
  return paths;
}

TensorFiles::TensorFiles(const std::filesystem::path& file_or_folder, const std::string& prefix)
    : given_(file_or_folder.string()) {
  std::vector<std::filesystem::path> paths;
  if (std::filesystem::is_directory(file_or_folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(file_or_folder))
      if (entry.path().extension() == ".safetensors" &&
          (prefix.empty() || entry.path().filename().string().starts_with(prefix + ".") ||
           entry.path().filename().string().starts_with(prefix + "-")))
        paths.push_back(entry.path());
  } else {
    paths.push_back(file_or_folder);
  }
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) throw ConfigError(fmt::format("{}: holds no {}*.safetensors", given_, prefix));
  for (const auto& path : paths) {
    files_.push_back(std::make_unique<MappedFile>(path));
    const MappedFile& file = *files_.back();
    SafetensorsHeader header = read_safetensors_header(path.string(), file.bytes());
    for (auto& [name, info] : header.tensors) {
      const std::uint64_t offset = header.data_offset + info.begin;
      tensors_[without_prefix(name)] = {&file, info, offset};
    }
  }
}

const TensorFiles::Source* TensorFiles::find(const std::string& name) const {
  const auto found = tensors_.find(without_prefix(name));
  return found == tensors_.end() ? nullptr : &found->second;
}

void TensorFiles::require(const ModelSpec& model) const {
  for (const PublishedTensor& tensor : published_tensors(model)) {
    const Source* source = find(tensor.name);
    if (source == nullptr) throw ConfigError(fmt::format("{}: tensor {} is missing", given_, tensor.name));
    if (source->info.shape != tensor.shape)
      throw ConfigError(fmt::format("{}: tensor {} has the shape ({}); the model needs ({})", given_,
                                    tensor.name, fmt::join(source->info.shape, ", "),
                                    fmt::join(tensor.shape, ", ")));
    if (source->info.dtype != "F32" && source->info.dtype != "BF16" && source->info.dtype != "F16")
      throw ConfigError(fmt::format("{}: tensor {} is {}; F32, BF16 and F16 can be read", given_, tensor.name,
                                    source->info.dtype));
  }
}

void TensorFiles::read(const Parameter& parameter, const Part& part, float* to, std::int64_t stride) const {
  const Source& source = *find(part.tensor);
  const std::byte* tensor = source.file->bytes().data() + source.offset;
  const auto width = static_cast<std::int64_t>(dtype_bytes(source.info.dtype));
  const std::int64_t cols = std::max<std::int64_t>(1, part.tensor_cols);
  for (std::int64_t r = 0; r < part.rows; ++r)
    for (std::int64_t c = 0; c < parameter.cols; ++c) {
      const std::int64_t row = part.first_row + r, col = part.first_col + c;
      const std::int64_t at = part.transposed ? col * part.tensor_rows + row : row * cols + col;
      to[r * stride + c] = element(source.info, tensor + at * width);
    }
}

std::vector<float> TensorFiles::whole(const std::string& name) const {
  const Source& source = *find(name);
  std::vector<float> values(static_cast<std::size_t>(source.info.count()));
  const std::byte* tensor = source.file->bytes().data() + source.offset;
  const std::uint64_t width = dtype_bytes(source.info.dtype);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = element(source.info, tensor + i * width);
  return values;
}

std::uint32_t checksum(std::span<const std::byte> bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

std::uint32_t file_checksum(const std::filesystem::path& file) { return checksum(MappedFile(file).bytes()); }

}  // namespace tpplan
