#include "executor/train/tensorboard.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <string>
#include <unistd.h>

#include "executor/train/tensor_files.hpp"
#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Wire types of protocol buffers: 0 varint, 1 eight bytes, 2 a length and that many bytes, 5 four bytes.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string tag(int field, int wire) { return varint(static_cast<std::uint64_t>(field << 3 | wire)); }
template <class T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}
std::string field(int number, std::string_view bytes) {
  return tag(number, 2) + varint(bytes.size()) + std::string(bytes);
}

std::uint32_t masked_checksum(std::string_view bytes) {
  const std::uint32_t crc = checksum(std::as_bytes(std::span(bytes)));
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

}  // namespace

TensorboardWriter::TensorboardWriter(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw SystemError(fmt::format("{}: cannot be created: {}", folder.string(), error.message()));
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const auto path = folder / fmt::format("events.out.tfevents.{}.{}.{}",
                                         static_cast<std::int64_t>(wall_time()), host.data(), ::getpid());
  out_.open(path, std::ios::binary | std::ios::app);
  if (!out_) throw SystemError(fmt::format("{}: cannot be written", path.string()));
  record(tag(1, 1) + raw(wall_time()) + field(3, "brain.Event:2"));
}

void TensorboardWriter::scalar(std::string_view name, std::int64_t step, double value) {
  const std::string one = field(1, name) + tag(2, 5) + raw(static_cast<float>(value));
  record(tag(1, 1) + raw(wall_time()) + tag(2, 0) + varint(static_cast<std::uint64_t>(step)) +
         field(5, field(1, one)));
}

void TensorboardWriter::record(std::string_view message) {
  const std::string length = raw(static_cast<std::uint64_t>(message.size()));
  if (!out_) throw SystemError("TensorBoard's events cannot be written");
  out_ << length << raw(masked_checksum(length)) << message << raw(masked_checksum(message));
}

}  // namespace tpplan
