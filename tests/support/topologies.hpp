#pragma once

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "simulator/document/document.hpp"
#include "simulator/topology/topology_reader.hpp"

namespace tpplan::testing {

inline const std::filesystem::path kTopologies = std::filesystem::path(TPPLAN_SOURCE_DIR) / "topologies";

/// A machine of topologies/, cut to `gpus`.
inline Topology shipped(const std::string& name, int gpus) {
  return with_gpus(read_topology(kTopologies / (name + ".yaml"), kTopologies / "devices"), gpus);
}

/// A machine from the text of its file. The file's name is of this test and process, as tests run side by
/// side.
inline Topology machine_of(const std::string& text) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const auto file = std::filesystem::temp_directory_path() /
                    fmt::format("tpplan_{}_{}_{}.yaml", test->test_suite_name(), test->name(), getpid());
  struct Remove {
    std::filesystem::path file;
    ~Remove() { std::filesystem::remove(file); }
  } const removed{file};
  std::ofstream(file) << text;
  return read_topology(file, kTopologies / "devices");
}

/// What reading that text complains of.
inline std::string error_of(const std::string& text) {
  try {
    (void)machine_of(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

inline double gigabytes(BytesPerSecond rate) { return rate.value() / 1e9; }

/// Two PCIe switches with two GPUs each under one CPU, 30 GB/s at 0.8; `more` links and keys.
inline std::string pcie_box(const std::string& more = "") {
  return "name: box\ndevice: rtx-3090\nnode:\n  gpus: 4\n  pci: 2\n  cpus: 1\n  links:\n"
         "    - {from: \"gpu[0-3]\", to: \"pci[0-1]\", kind: pcie, bandwidth: 30 GB/s, latency: 5 us}\n"
         "    - {from: \"pci[0-1]\", to: cpu0, kind: pcie, bandwidth: 30 GB/s, latency: 5 us}\n" +
         more;
}

}  // namespace tpplan::testing
