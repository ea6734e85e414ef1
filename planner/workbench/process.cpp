#include "planner/workbench/process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <poll.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

constexpr std::size_t kErrorsKept = 16'384;

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      throw SystemError(fmt::format("no pipe: {}", std::strerror(errno)));
    read_end = ends[0];
    write_end = ends[1];
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close(read_end);
    close(write_end);
  }
  static void close(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
};

/// Becomes the program. Only async-signal-safe calls: other threads of the parent may hold locks.
[[noreturn]] void become(char* const* arguments, int out, int errors, int failure, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  ::execvp(arguments[0], arguments);
  const int error = errno;
  (void)!::write(failure, &error, sizeof(error));
  ::_exit(127);
}

}  // namespace

ProcessEnd run_process(const std::vector<std::string>& command,
                       const std::function<void(const std::string& line)>& line,
                       const std::function<void()>& idle, const std::stop_token& kill) {
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Pipe out, errors, failure;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0)
    throw SystemError(fmt::format("{}: cannot be started: {}", command[0], std::strerror(errno)));
  if (child == 0) become(arguments.data(), out.write_end, errors.write_end, failure.write_end, parent);
  for (Pipe* pipe : {&out, &errors, &failure}) Pipe::close(pipe->write_end);
  int error = 0;
  if (::read(failure.read_end, &error, sizeof(error)) == sizeof(error)) {
    ::waitpid(child, nullptr, 0);
    throw SystemError(fmt::format("{}: cannot be started: {}", command[0], std::strerror(error)));
  }

  ProcessEnd end;
  std::string pending;
  bool killed = false;
  while (out.read_end >= 0 || errors.read_end >= 0) {
    std::array<pollfd, 2> waits{{{out.read_end, POLLIN, 0}, {errors.read_end, POLLIN, 0}}};
    ::poll(waits.data(), waits.size(), 200);
    if (kill.stop_requested() && !killed) {
      ::kill(-child, SIGTERM);
      killed = true;
    }
    std::array<char, 65'536> bytes{};
    if ((waits[0].revents & (POLLIN | POLLHUP)) != 0) {
      const ssize_t n = ::read(out.read_end, bytes.data(), bytes.size());
      if (n <= 0) Pipe::close(out.read_end);
      if (n > 0) pending.append(bytes.data(), static_cast<std::size_t>(n));
      for (std::size_t at = pending.find('\n'); at != std::string::npos; at = pending.find('\n')) {
        line(pending.substr(0, at));
        pending.erase(0, at + 1);
      }
    }
    if ((waits[1].revents & (POLLIN | POLLHUP)) != 0) {
      const ssize_t n = ::read(errors.read_end, bytes.data(), bytes.size());
      if (n <= 0) Pipe::close(errors.read_end);
      if (n > 0) end.errors.append(bytes.data(), static_cast<std::size_t>(n));
      if (end.errors.size() > kErrorsKept) end.errors.erase(0, end.errors.size() - kErrorsKept);
    }
    idle();
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

std::string find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path candidate = std::filesystem::path(folder) / name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate.string();
  }
  return {};
}

}  // namespace tpplan
