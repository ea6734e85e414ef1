#include "simulator/document/document.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <unistd.h>
#include <yaml-cpp/depthguard.h>

namespace tpplan {
namespace {

constexpr std::size_t kLargestDocument = 16U << 20U;
constexpr int kDeepestNesting = 64;

/// Refuses deep nesting before the recursive parser sees it, so that hostile input cannot exhaust the stack.
/// Counts flow brackets outside quotes and comments; block nesting is bounded by the node check afterwards.
void refuse_deep_brackets(const std::string& text, const std::string& name) {
  int depth = 0;
  int line = 1;
  int column = 0;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    ++column;
    if (c == '\n') ++line, column = 0;
    if (quote != 0) {
      if (c == '\\' && quote == '"')
        ++i, ++column;
      else if (c == quote)
        quote = 0;
    } else if (c == '"') {
      quote = c;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestNesting)
        throw ConfigError(
            fmt::format("{}:{}:{}: nested deeper than {} levels", name, line, column, kDeepestNesting));
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

std::string place_of(const std::string& file, const YAML::Mark& mark) {
  if (mark.is_null()) return file;
  return fmt::format("{}:{}:{}", file, mark.line + 1, mark.column + 1);
}

/// `nodes` is what may still be visited. Without aliases a document has fewer nodes than bytes; a few lines
/// of aliases of aliases stand for billions.
void refuse_duplicates_and_depth(const YAML::Node& node, const std::string& file, int depth,
                                 std::size_t& nodes) {
  if (depth > kDeepestNesting)
    throw ConfigError(
        fmt::format("{}: nested deeper than {} levels", place_of(file, node.Mark()), kDeepestNesting));
  if (nodes == 0)
    throw ConfigError(fmt::format("{}: aliases repeat each other too often; write the values out",
                                  place_of(file, node.Mark())));
  --nodes;
  if (node.IsSequence()) {
    for (const auto& item : node) refuse_duplicates_and_depth(item, file, depth + 1, nodes);
  } else if (node.IsMap()) {
    std::set<std::string> seen;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar())
        throw ConfigError(fmt::format("{}: a key must be a plain word", place_of(file, entry.first.Mark())));
      if (!seen.insert(entry.first.Scalar()).second)
        throw ConfigError(fmt::format("{}: key '{}' is given twice; keep one",
                                      place_of(file, entry.first.Mark()), entry.first.Scalar()));
      refuse_duplicates_and_depth(entry.second, file, depth + 1, nodes);
    }
  }
}

template <class Parser>
auto parse_quantity(const Value& value, Parser parser, bool zero_is_right) {
  try {
    const auto quantity = parser(value.text());
    if (!zero_is_right && quantity.value() <= 0) value.fail("must be more than zero");
    return quantity;
  } catch (const std::invalid_argument& error) {
    value.fail(error.what());
  }
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row.back();
}

std::optional<std::string> nearest_spelling(std::string_view word, std::span<const std::string> candidates) {
  std::size_t best = std::max<std::size_t>(2, word.size() / 3) + 1;
  std::optional<std::string> nearest;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best) best = distance, nearest = candidate;
  }
  return nearest;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const auto nearest = nearest_spelling(word, candidates);
  return nearest ? fmt::format("; did you mean '{}'?", *nearest) : std::string{};
}

std::string Value::place() const { return place_of(*file_, node_.Mark()); }

void Value::fail(std::string_view message) const {
  throw ConfigError(path_.empty() ? fmt::format("{}: {}", place(), message)
                                  : fmt::format("{}: {}: {}", place(), path_, message));
}

MapReader Value::map() const {
  if (!node_.IsMap()) fail("must be a map of keys and values");
  std::vector<std::pair<std::string, Value>> entries;
  for (const auto& entry : node_) {
    const std::string& key = entry.first.Scalar();
    entries.emplace_back(key, Value(file_, entry.second, path_.empty() ? key : path_ + "." + key));
  }
  return MapReader(*this, std::move(entries));
}

std::vector<Value> Value::list() const {
  if (!node_.IsSequence()) fail("must be a list");
  std::vector<Value> items;
  for (std::size_t i = 0; i < node_.size(); ++i)
    items.emplace_back(file_, node_[i], fmt::format("{}[{}]", path_, i));
  return items;
}

std::string Value::text() const {
  if (!node_.IsScalar()) fail("must be a single value");
  return node_.Scalar();
}

bool Value::flag() const {
  const std::string word = text();
  if (word == "true") return true;
  if (word == "false") return false;
  fail(fmt::format("'{}' must be true or false", word));
}

std::int64_t Value::integer(std::int64_t lowest, std::int64_t highest) const {
  const std::string word = text();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error == std::errc::result_out_of_range ||
      (error == std::errc{} && end == word.data() + word.size() && (number < lowest || number > highest)))
    fail(fmt::format("{} is outside {} .. {}", word, lowest, highest));
  if (error != std::errc{} || end != word.data() + word.size())
    fail(fmt::format("'{}' must be a whole number from {} to {}", word, lowest, highest));
  return number;
}

double Value::number(double lowest, double highest) const {
  const std::string word = text();
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || end != word.data() + word.size() || !std::isfinite(number))
    fail(fmt::format("'{}' must be a finite number from {} to {}", word, lowest, highest));
  if (number < lowest || number > highest) fail(fmt::format("{} is outside {} .. {}", word, lowest, highest));
  return number;
}

std::size_t Value::choice(std::span<const std::string_view> names) const {
  const std::string word = text();
  const auto found = std::find(names.begin(), names.end(), word);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  const std::vector<std::string> candidates(names.begin(), names.end());
  fail(fmt::format("'{}' must be one of {}{}", word, fmt::join(names, ", "), did_you_mean(word, candidates)));
}

Bytes Value::bytes() const { return parse_quantity(*this, parse_bytes, false); }
Seconds Value::seconds() const { return parse_quantity(*this, parse_seconds, true); }
BytesPerSecond Value::bandwidth() const { return parse_quantity(*this, parse_bandwidth, false); }
FlopsPerSecond Value::flops_rate() const { return parse_quantity(*this, parse_flops_rate, false); }

MapReader::MapReader(Value whole, std::vector<std::pair<std::string, Value>> entries)
    : whole_(std::move(whole)), entries_(std::move(entries)) {}

std::optional<Value> MapReader::optional(const std::string& key) {
  known_.insert(key);
  for (const auto& [name, value] : entries_)
    if (name == key && !value.is_null()) return value;
  return std::nullopt;
}

Value MapReader::required(const std::string& key) {
  if (auto value = optional(key)) return *value;
  // A misspelt key explains a missing one better than its absence does.
  for (const auto& [name, value] : entries_)
    if (!known_.contains(name) && nearest_spelling(name, std::span(&key, 1)))
      value.fail(fmt::format("unknown key '{}'; did you mean '{}'?", name, key));
  whole_.fail(fmt::format("key '{}' is missing", key));
}

bool MapReader::has(const std::string& key) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& e) { return e.first == key; });
}

std::vector<std::string> MapReader::keys() const {
  std::vector<std::string> names;
  for (const auto& entry : entries_) names.push_back(entry.first);
  return names;
}

void MapReader::ignore(const std::string& key) { known_.insert(key); }

void MapReader::finish() const {
  const std::vector<std::string> candidates(known_.begin(), known_.end());
  for (const auto& [name, value] : entries_)
    if (!known_.contains(name))
      value.fail(fmt::format("unknown key '{}'{}", name, did_you_mean(name, candidates)));
}

Value parse_document(const std::string& text, const std::string& name) {
  if (text.size() > kLargestDocument) throw ConfigError(fmt::format("{}: larger than 16 MiB", name));
  refuse_deep_brackets(text, name);
  YAML::Node node;
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1)
      throw ConfigError(fmt::format("{}: a second document begins here; a file holds one",
                                    place_of(name, documents[1].Mark())));
    if (!documents.empty()) node = documents[0];
  } catch (const YAML::DeepRecursion& error) {
    throw ConfigError(
        fmt::format("{}: nested deeper than {} levels", place_of(name, error.mark), kDeepestNesting));
  } catch (const YAML::Exception& error) {
    throw ConfigError(fmt::format("{}: {}", place_of(name, error.mark), error.msg));
  }
  std::size_t nodes = 2 * text.size() + 1;
  refuse_duplicates_and_depth(node, name, 0, nodes);
  return Value(std::make_shared<const std::string>(name), node, "");
}

Value read_document(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error))
    throw ConfigError(fmt::format("{}: no such file", file.string()));
  if (std::filesystem::is_directory(file, error))
    throw ConfigError(fmt::format("{}: is a folder; a file is needed", file.string()));
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw ConfigError(fmt::format("{}: cannot be read", file.string()));
  std::string text;
  text.resize(kLargestDocument + 1);
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return parse_document(text, file.string());
}

std::string yaml_string(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void write_file(const std::filesystem::path& file, std::string_view text) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  const bool in_place = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
                        !std::filesystem::is_directory(status);
  const std::filesystem::path target =
      std::filesystem::is_symlink(file, error) ? std::filesystem::weakly_canonical(file, error) : file;
  const std::filesystem::path temporary =
      in_place ? file : std::filesystem::path(target.string() + fmt::format(".{}.tmp", getpid()));
  std::ofstream stream(temporary, std::ios::binary);
  stream.write(text.data(), static_cast<std::streamsize>(text.size()));
  stream.close();
  if (!stream) {
    if (!in_place) std::filesystem::remove(temporary, error);
    throw SystemError(fmt::format("{}: cannot be written", file.string()));
  }
  if (in_place) return;
  std::filesystem::rename(temporary, target, error);
  if (error) {
    const std::string why = error.message();
    std::filesystem::remove(temporary, error);
    throw SystemError(fmt::format("{}: cannot be written: {}", file.string(), why));
  }
}

}  // namespace tpplan
