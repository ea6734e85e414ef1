#pragma once

#include <string>

#include "simulator/document/document.hpp"
#include "simulator/model/model_spec.hpp"

namespace tpplan {

/// A Hugging Face config.json of a known model_type (nested text_config followed). Keys that do not bear on
/// shapes are ignored: each family has dozens. Throws ConfigError for an unknown model_type, listing the
/// known ones, and for missing, misspelt or impossible values. The sequence is the smaller of 4096 and the
/// positions.
[[nodiscard]] ModelSpec read_hugging_face(const Value& document, const std::string& name);

}  // namespace tpplan
