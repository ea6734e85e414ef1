#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>
#include <yaml-cpp/yaml.h>

#include "simulator/units/units.hpp"

namespace tpplan {

/// A mistake of the user: the message begins with "file:line:column: " where there is a place, and ends with
/// the remedy.
class ConfigError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The machine failed at run time (disk full, file unreadable): what was being done, and why it failed.
class SystemError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The user asked to stop before there was a result.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

/// Insertions, deletions and substitutions that make `b` of `a` (Levenshtein).
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word` by edit distance, if it is near enough to be a slip of the finger.
[[nodiscard]] std::optional<std::string> nearest_spelling(std::string_view word,
                                                          std::span<const std::string> candidates);

/// "; did you mean 'hidden'?" or "" when nothing is near.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

class MapReader;

/// One value of a YAML or JSON document that knows its file, line, column and the path of keys that leads to
/// it. Every reader below throws ConfigError with that place when the value is not what was asked for.
class Value {
 public:
  Value(std::shared_ptr<const std::string> file, YAML::Node node, std::string path)
      : file_(std::move(file)), node_(std::move(node)), path_(std::move(path)) {}

  [[nodiscard]] bool is_map() const { return node_.IsMap(); }
  [[nodiscard]] bool is_list() const { return node_.IsSequence(); }
  [[nodiscard]] bool is_null() const { return node_.IsNull(); }
  [[nodiscard]] const std::string& path() const { return path_; }

  [[nodiscard]] MapReader map() const;
  [[nodiscard]] std::vector<Value> list() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool flag() const;
  /// A whole number in [lowest, highest]; 1e6 and 1_000 are refused, as is anything that overflows.
  [[nodiscard]] std::int64_t integer(std::int64_t lowest, std::int64_t highest) const;
  /// A finite number in [lowest, highest].
  [[nodiscard]] double number(double lowest, double highest) const;
  /// The index of the text among `names`.
  [[nodiscard]] std::size_t choice(std::span<const std::string_view> names) const;
  template <class Enum, std::size_t N>
  [[nodiscard]] Enum choice(const std::array<std::string_view, N>& names) const {
    return static_cast<Enum>(choice(std::span<const std::string_view>(names)));
  }
  [[nodiscard]] Bytes bytes() const;                // more than zero
  [[nodiscard]] Seconds seconds() const;            // zero or more
  [[nodiscard]] BytesPerSecond bandwidth() const;   // more than zero
  [[nodiscard]] FlopsPerSecond flops_rate() const;  // more than zero

  /// "file:line:column"
  [[nodiscard]] std::string place() const;
  /// Throws ConfigError "file:line:column: path: message".
  [[noreturn]] void fail(std::string_view message) const;

 private:
  std::shared_ptr<const std::string> file_;
  YAML::Node node_;
  std::string path_;
};

/// Reads a map key by key and, in finish(), refuses every key that was not asked for, with the nearest right
/// spelling.
class MapReader {
 public:
  explicit MapReader(Value whole, std::vector<std::pair<std::string, Value>> entries);

  [[nodiscard]] Value required(const std::string& key);
  [[nodiscard]] std::optional<Value> optional(const std::string& key);
  [[nodiscard]] bool has(const std::string& key) const;
  /// The keys in the order of the file.
  [[nodiscard]] std::vector<std::string> keys() const;
  /// Accepts a key without reading it.
  void ignore(const std::string& key);
  /// Throws ConfigError for the first key that was neither read nor ignored.
  void finish() const;
  [[nodiscard]] const Value& whole() const { return whole_; }

 private:
  Value whole_;
  std::vector<std::pair<std::string, Value>> entries_;
  std::set<std::string> known_;
};

/// Parse YAML (and so JSON) text; `name` stands in messages as the file. Refuses bad syntax, duplicate keys,
/// more than 16 MiB and more than 64 levels of nesting, each as ConfigError.
[[nodiscard]] Value parse_document(const std::string& text, const std::string& name);

/// Read and parse a file. A missing, unreadable or non-regular file is a ConfigError.
[[nodiscard]] Value read_document(const std::filesystem::path& file);

/// `text` as a double-quoted YAML scalar: a JSON string is one, with quotes, backslashes and line ends
/// escaped.
[[nodiscard]] std::string yaml_string(const std::string& text);

/// Write `text` to a temporary name in the same folder and rename it onto `file`, so that nobody sees half of
/// it. A link is followed; a pipe or a device is written where it is, because renaming would replace it.
/// Throws SystemError.
void write_file(const std::filesystem::path& file, std::string_view text);

}  // namespace tpplan
