#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tpplan {

/// Where shipped models, machines and devices lie.
struct DataFiles {
  std::filesystem::path root;  // holds configs/ and topologies/

  [[nodiscard]] std::filesystem::path models() const { return root / "configs" / "models"; }
  [[nodiscard]] std::filesystem::path topologies() const { return root / "topologies"; }
  [[nodiscard]] std::filesystem::path devices() const { return topologies() / "devices"; }
  [[nodiscard]] std::filesystem::path calibrations() const { return root / "configs" / "calibrations"; }
  [[nodiscard]] std::filesystem::path experiments() const { return root / "configs" / "experiments"; }
};

/// TPPLAN_DATA when it is set, or ../share/tpplan of the program, or the source tree it was built from.
/// Throws ConfigError when none of them holds topologies/.
[[nodiscard]] DataFiles find_data_files(const std::filesystem::path& program);

/// A file as the user names it: by path, or a shipped one of `folder` with or without .yaml. Throws
/// ConfigError with the nearest shipped name.
[[nodiscard]] std::filesystem::path find_file(const std::string& given, const std::filesystem::path& folder,
                                              const std::string& what);

/// Stems of the *.yaml files of a folder, sorted.
[[nodiscard]] std::vector<std::string> shipped_names(const std::filesystem::path& folder);

}  // namespace tpplan
