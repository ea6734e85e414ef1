#include "executor/train/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

using nlohmann::json;
constexpr std::uint64_t kLongestHeader = 100'000'000;
constexpr std::int64_t kMostElements = 1LL << 48;

std::uint64_t whole_number(const json& value) {
  if (!value.is_number_unsigned()) throw std::invalid_argument("'" + value.dump() + "' is no whole number");
  return value.get<std::uint64_t>();
}

/// Whole numbers whose product is within reason.
std::vector<std::int64_t> dimensions(const json& shape) {
  std::vector<std::int64_t> dims;
  std::int64_t product = 1;
  for (const json& dim : shape) {
    const std::uint64_t size = whole_number(dim);
    if (size > kMostElements || (size > 0 && product > kMostElements / static_cast<std::int64_t>(size)))
      throw std::invalid_argument("a shape of more than 2^48 elements");
    dims.push_back(static_cast<std::int64_t>(size));
    product *= std::max<std::int64_t>(1, dims.back());
  }
  return dims;
}

}  // namespace

std::int64_t TensorInfo::count() const {
  std::int64_t n = 1;
  for (const std::int64_t dim : shape) n *= dim;
  return n;
}

std::uint64_t dtype_bytes(std::string_view dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") return 2;
  return dtype == "I8" || dtype == "U8" || dtype == "BOOL" || dtype.starts_with("F8_") ? 1 : 0;
}

SafetensorsHeader read_safetensors_header(const std::string& file, std::span<const std::byte> bytes) {
  const auto fail = [&](const std::string& what) { throw ConfigError(fmt::format("{}: {}", file, what)); };
  std::uint64_t length = 0;
  if (bytes.size() < sizeof(length)) fail("is no safetensors file: shorter than its first 8 bytes");
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kLongestHeader) fail(fmt::format("is no safetensors file: a header of {} bytes", length));
  if (bytes.size() < sizeof(length) + length)
    fail(fmt::format("is cut off: its header has {} bytes, the file {}", length, bytes.size()));
  SafetensorsHeader header;
  header.data_offset = sizeof(length) + length;
  const std::uint64_t data = bytes.size() - header.data_offset;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  try {
    const auto* text = reinterpret_cast<const char*>(bytes.data()) + sizeof(length);
    std::set<std::string> names;
    const json parsed =
        json::parse(text, text + length, [&](int depth, json::parse_event_t event, json& key) {
          if (depth == 1 && event == json::parse_event_t::key && !names.insert(key.get<std::string>()).second)
            fail(fmt::format("tensor {} is there twice", key.get<std::string>()));
          return true;
        });
    if (!parsed.is_object()) fail("its header is not as safetensors want it: no object");
    for (const auto& [name, entry] : parsed.items()) {
      if (name == "__metadata__") continue;
      TensorInfo tensor{.name = name,
                        .dtype = entry.at("dtype").get<std::string>(),
                        .shape = dimensions(entry.at("shape")),
                        .begin = whole_number(entry.at("data_offsets").at(0)),
                        .end = whole_number(entry.at("data_offsets").at(1))};
      if (entry.at("data_offsets").size() != 2)
        fail(fmt::format("tensor {} has more than two offsets", name));
      const std::uint64_t element = dtype_bytes(tensor.dtype);
      if (element == 0) fail(fmt::format("tensor {} has an unknown format '{}'", name, tensor.dtype));
      if (tensor.begin > tensor.end ||
          tensor.end - tensor.begin != static_cast<std::uint64_t>(tensor.count()) * element)
        fail(fmt::format("tensor {} of shape ({}) does not fill bytes {} to {}", name,
                         fmt::join(tensor.shape, ", "), tensor.begin, tensor.end));
      if (tensor.end > data)
        fail(fmt::format("is cut off: tensor {} ends at byte {} of {}", name, tensor.end, data));
      ranges.emplace_back(tensor.begin, tensor.end);
      header.tensors.emplace(name, std::move(tensor));
    }
  } catch (const json::exception& error) {
    fail(fmt::format("its header is not as safetensors want it: {}", error.what()));
  } catch (const std::invalid_argument& error) {
    fail(fmt::format("its header is not as safetensors want it: {}", error.what()));
  }
  std::sort(ranges.begin(), ranges.end());
  if (!ranges.empty() && (ranges.front().first != 0 || ranges.back().second != data))
    fail(fmt::format("its tensors do not fill its {} bytes of data", data));
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first > ranges[i - 1].second)
      fail(fmt::format("a gap lies between its tensors at byte {}", ranges[i - 1].second));
  for (std::size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second)
      fail(fmt::format("tensors overlap at byte {}", ranges[i].first));
  return header;
}

std::string safetensors_header(std::vector<TensorInfo>& tensors) {
  json header = json::object();
  std::uint64_t at = 0;
  for (TensorInfo& tensor : tensors) {
    tensor.begin = at;
    tensor.end = at += static_cast<std::uint64_t>(tensor.count()) * dtype_bytes(tensor.dtype);
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}};
  }
  header["__metadata__"] = {{"format", "pt"}};
  std::string text = header.dump();
  text.append((64 - (text.size() + 8) % 64) % 64, ' ');
  const std::uint64_t length = text.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + text;
}

}  // namespace tpplan
