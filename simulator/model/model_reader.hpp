#pragma once

#include <filesystem>
#include <string>

#include "simulator/document/document.hpp"
#include "simulator/model/model_spec.hpp"

namespace tpplan {

/// Reads a model: our YAML, or a Hugging Face config.json as it comes (recognised by `model_type`). Throws
/// ConfigError with file, line, column and remedy.
[[nodiscard]] ModelSpec read_model(const std::filesystem::path& file);

/// The same from a parsed document; `name` is used where the document has none.
[[nodiscard]] ModelSpec model_from(const Value& document, const std::string& name);

/// Our YAML for a model. Reading it gives the same ModelSpec back; only a Hugging Face family becomes "gpt"
/// or "llama", the nearer of the two.
[[nodiscard]] std::string model_to_yaml(const ModelSpec& model);

}  // namespace tpplan
