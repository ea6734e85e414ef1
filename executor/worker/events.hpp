#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tpplan {

/// Tells tpplan what happens: one JSON object a line on the standard output, in one write, so that lines of
/// several ranks do not mix. Without a listener the lines are readable as they are.
void emit(const nlohmann::json& event);

/// An error event. `code`: the exit code that follows.
void emit_error(int rank, int code, const std::string& text);

}  // namespace tpplan
