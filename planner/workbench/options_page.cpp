#include <fmt/format.h>

#include "planner/workbench/options.hpp"

namespace tpplan {
namespace {

/// A cell of a Markdown table: its own bars are escaped.
std::string cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2))
    text.insert(at, "\\");
  return text;
}

}  // namespace

std::string options_markdown() {
  std::string page =
      "# Options\n\nWritten by `tpplan list --options`; the flags, `--help` and the keys of an experiment "
      "file come from the same table.\nKeys of an experiment file are the names without dashes in front: "
      "`global-batch: 4194304 tokens`, `fix: {tp: 8}`.\n";
  for (std::size_t v = 0; v < kVerbs.size(); ++v) {
    page += fmt::format(
        "\n## tpplan {}\n\n{}.\n\n| option | value | range | default | meaning | experiment |\n"
        "|---|---|---|---|---|---|\n",
        kVerbs[v].name, kVerbs[v].text);
    for (const OptionSpec& option : option_table()) {
      if (!option.belongs_to(static_cast<Verb>(v))) continue;
      page +=
          fmt::format("| `--{}`{} | {} | {} | {} | {} | {} |\n", option.name,
                      option.repeatable ? " (repeatable)" : "", cell(value_form(option)), range_text(option),
                      option.standard, option.text, option.in_experiment ? "yes" : "no");
    }
  }
  return page;
}

}  // namespace tpplan
