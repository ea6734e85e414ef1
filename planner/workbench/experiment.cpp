#include "planner/workbench/experiment.hpp"

#include <stdexcept>

#include "planner/workbench/options.hpp"
#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

void set_at(const Value& place, const OptionSpec& option, const std::string& text, Settings& settings) {
  try {
    set_option(option, settings, text);
  } catch (const std::invalid_argument& error) {
    place.fail(error.what());
  }
}

/// A single value as it is, a list as "a,b".
std::string joined(const Value& value) {
  if (!value.is_list()) return value.text();
  std::string text;
  for (const Value& item : value.list()) text += (text.empty() ? "" : ",") + item.text();
  return text;
}

void apply_value(const Value& value, const OptionSpec& option, Settings& settings) {
  if (option.kind == OptionKind::axis && value.is_map()) {
    MapReader axes = value.map();
    for (const std::string& axis : axes.keys()) {
      const Value held = axes.required(axis);
      set_at(held, option, axis + "=" + joined(held), settings);
    }
  } else if (option.repeatable && value.is_list()) {
    for (const Value& item : value.list()) set_at(item, option, item.text(), settings);
  } else if (value.is_list() && !option.list) {
    value.fail("takes one value, not a list");
  } else {
    set_at(value, option, joined(value), settings);
  }
}

}  // namespace

void apply_experiment(const std::filesystem::path& file, Settings& settings) {
  const Value document = read_document(file);
  MapReader map = document.map();
  for (const OptionSpec& option : option_table())
    if (option.in_experiment)
      if (const auto value = map.optional(std::string(option.name))) apply_value(*value, option, settings);
  map.finish();
}

}  // namespace tpplan
