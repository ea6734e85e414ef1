#include "executor/worker/events.hpp"

#include <nlohmann/json.hpp>
#include <unistd.h>

namespace tpplan {

void emit(const nlohmann::json& event) {
  const std::string line = event.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::write(STDOUT_FILENO, line.data() + sent, line.size() - sent);
    if (n <= 0) return;  // nobody listens any more
    sent += static_cast<std::size_t>(n);
  }
}

void emit_error(int rank, int code, const std::string& text) {
  emit({{"event", "error"}, {"rank", rank}, {"code", code}, {"text", text}});
}

}  // namespace tpplan
