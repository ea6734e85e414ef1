#include "planner/cli/table.hpp"

#include <algorithm>
#include <cctype>

namespace tpplan {
namespace {

bool is_number(const std::string& cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell.front())) != 0 ||
                           cell.front() == '-' || cell.front() == '+');
}

}  // namespace

std::string Table::text(bool bold) const {
  std::vector<std::size_t> widths;
  std::vector<bool> right;
  for (const auto& row : rows_)
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c == widths.size()) widths.push_back(0), right.push_back(true);
      widths[c] = std::max(widths[c], row[c].size());
      if (&row != &rows_.front() && !row[c].empty() && !is_number(row[c])) right[c] = false;
    }
  std::string out;
  for (const auto& row : rows_) {
    std::string line = "  ";
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string pad(widths[c] - row[c].size(), ' ');
      const bool last = c + 1 == row.size();
      line += right[c] ? pad + row[c] : last ? row[c] : row[c] + pad;
      if (!last) line += "  ";
    }
    while (line.ends_with(' ')) line.pop_back();
    const bool head = &row == &rows_.front();
    out += head && bold ? "\x1b[1m" + line + "\x1b[0m\n" : line + "\n";
  }
  return out;
}

}  // namespace tpplan
