#pragma once

#include <string>
#include <vector>

namespace tpplan {

/// Rows of cells printed in aligned columns: the first row is the head, numbers to the right, the last column
/// as it is.
class Table {
 public:
  explicit Table(std::vector<std::string> head) : rows_{std::move(head)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// `bold` writes the head with terminal codes. Every line begins with two blanks.
  [[nodiscard]] std::string text(bool bold) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tpplan
