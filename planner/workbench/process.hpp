#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

namespace tpplan {

struct ProcessEnd {
  int code = 0;        // of the exit; 128 + signal when a signal ended it
  std::string errors;  // the last of what it wrote to the standard error
};

/// Runs a program with nothing on its standard input, in a process group of its own, so that an interrupt of
/// the terminal reaches only this program. `line` gets each line of its standard output as it comes; `idle`
/// is called about five times a second. It is ended when this program ends, and when `kill` is requested.
/// Throws SystemError when it cannot be started.
[[nodiscard]] ProcessEnd run_process(const std::vector<std::string>& command,
                                     const std::function<void(const std::string& line)>& line,
                                     const std::function<void()>& idle, const std::stop_token& kill = {});

/// The path of a program that is found through PATH; empty when there is none.
[[nodiscard]] std::string find_program(const std::string& name);

}  // namespace tpplan
