#include "planner/workbench/data_files.hpp"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "simulator/document/document.hpp"

namespace tpplan {

namespace fs = std::filesystem;

DataFiles find_data_files(const fs::path& program) {
  std::vector<fs::path> roots;
  if (const char* given = std::getenv("TPPLAN_DATA")) {
    roots = {given};
  } else {
    std::error_code error;
    const fs::path self = fs::canonical(program, error);
    if (!error) roots.push_back(self.parent_path().parent_path() / "share" / "tpplan");
    roots.emplace_back(TPPLAN_SOURCE_DIR);
  }
  for (const fs::path& root : roots)
    if (fs::is_directory(root / "topologies")) return {root};
  throw ConfigError(fmt::format(
      "shipped configs and topologies not found in {}; set TPPLAN_DATA to the folder that holds them",
      roots.front().string()));
}

std::vector<std::string> shipped_names(const fs::path& folder) {
  std::vector<std::string> names;
  if (fs::is_directory(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

fs::path find_file(const std::string& given, const fs::path& folder, const std::string& what) {
  std::error_code error;
  if (fs::exists(given, error)) return given;
  for (const fs::path& candidate : {folder / given, folder / (given + ".yaml")})
    if (!given.empty() && fs::exists(candidate, error)) return candidate;
  std::string stem = fs::path(given).filename().string();
  if (stem.ends_with(".yaml")) stem.resize(stem.size() - 5);
  const std::vector<std::string> names = shipped_names(folder);
  throw ConfigError(fmt::format("{}: no such file, and no shipped {} of that name{}", given, what,
                                did_you_mean(stem, names)));
}

}  // namespace tpplan
