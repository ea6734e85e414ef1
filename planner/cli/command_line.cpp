#include "planner/cli/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "planner/workbench/data_files.hpp"
#include "planner/workbench/experiment.hpp"
#include "simulator/document/document.hpp"

namespace tpplan {
namespace {

/// The texts given for each option of one verb.
using Given = std::map<std::string, std::vector<std::string>, std::less<>>;

struct VerbParser {
  CLI::App* app = nullptr;
  Given given;
  std::map<std::string, bool, std::less<>> flags;
};

void add_options(VerbParser& parser, Verb verb) {
  for (const OptionSpec& option : option_table()) {
    if (!option.belongs_to(verb)) continue;
    const std::string name(option.name);
    const std::string spelling = (name == "output" ? "-o," : "") + ("--" + name);
    if (option.kind == OptionKind::flag) {
      parser.app->add_flag(spelling, parser.flags[name], std::string(option.text));
      continue;
    }
    const std::string range = range_text(option);
    const std::string text =
        fmt::format("{}{}{} [{}]", option.text, range.empty() ? "" : ", ", range, option.standard);
    CLI::Option* added = parser.app->add_option(spelling, parser.given[name], text);
    // One value each: what follows it is the verb's bare argument, as in `simulate --trace t.json plan.yaml`.
    added->type_name(value_form(option))->expected(1)->allow_extra_args(false);
    added->multi_option_policy(option.repeatable ? CLI::MultiOptionPolicy::TakeAll
                                                 : CLI::MultiOptionPolicy::Throw);
  }
}

/// CLI11 lists what it could not place; the user wants the nearest right flag.
[[noreturn]] void fail_on_extras(const std::vector<std::string>& extras, Verb verb) {
  const std::string& first = extras.front();
  std::vector<std::string> names;
  for (const OptionSpec& option : option_table())
    if (option.belongs_to(verb)) names.push_back("--" + std::string(option.name));
  const std::string flag = first.substr(0, first.find('='));
  throw ConfigError(fmt::format("unknown {} '{}'{}", first.starts_with('-') ? "option" : "argument", first,
                                did_you_mean(flag, names)));
}

void apply(const OptionSpec& option, const std::string& text, Settings& settings) {
  try {
    set_option(option, settings, text);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(fmt::format("--{}: {}", option.name, error.what()));
  }
}

void apply_all(const VerbParser& parser, Verb verb, Settings& settings) {
  for (const OptionSpec& option : option_table()) {
    if (!option.belongs_to(verb)) continue;
    if (const auto flag = parser.flags.find(option.name); flag != parser.flags.end() && flag->second)
      apply(option, "true", settings);
    if (const auto texts = parser.given.find(option.name); texts != parser.given.end())
      for (const std::string& text : texts->second) apply(option, text, settings);
  }
}

bool is_verb(const std::string& word) {
  return std::any_of(kVerbs.begin(), kVerbs.end(), [&](const VerbSpec& verb) { return verb.name == word; });
}

}  // namespace

std::variant<Command, Notice> parse_command_line(const std::vector<std::string>& arguments,
                                                 const std::filesystem::path& program) {
  std::vector<std::string> words = arguments;
  const bool top_level =
      words.empty() || words.front() == "--help" || words.front() == "-h" || words.front() == "--version";
  if (!top_level && !is_verb(words.front())) {
    if (!words.front().starts_with('-')) {
      std::vector<std::string> names;
      for (const VerbSpec& verb : kVerbs) names.emplace_back(verb.name);
      throw ConfigError(
          fmt::format("unknown verb '{}'{}", words.front(), did_you_mean(words.front(), names)));
    }
    words.insert(words.begin(), "plan");
  }

  CLI::App app{
      "Plans how to train a language model on a cluster, and says what it will cost.\n"
      "tpplan --model gpt10b.yaml --gpus 128 is tpplan plan with these options.",
      "tpplan"};
  app.set_version_flag("--version", "tpplan " TPPLAN_VERSION);
  app.require_subcommand(0, 1);
  std::array<VerbParser, kVerbs.size()> parsers;
  std::string positional;
  Command command;
  for (std::size_t v = 0; v < kVerbs.size(); ++v) {
    parsers[v].app = app.add_subcommand(std::string(kVerbs[v].name), std::string(kVerbs[v].text));
    parsers[v].app->allow_extras();
    add_options(parsers[v], static_cast<Verb>(v));
    if (!kVerbs[v].positional.empty())
      parsers[v].app->add_option(std::string(kVerbs[v].positional), positional,
                                 fmt::format("the same as --{}", kVerbs[v].positional));
    if (static_cast<Verb>(v) == Verb::list)
      parsers[v].app->add_flag("--options", command.options_page,
                               "print the reference page of all options (Markdown)");
  }
  try {
    std::reverse(words.begin(), words.end());
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    return Notice{app.help()};  // of the verb, when one was given
  } catch (const CLI::CallForVersion& error) {
    return Notice{std::string(error.what()) + "\n"};
  } catch (const CLI::ParseError& error) {
    std::string message = error.what();
    std::replace(message.begin(), message.end(), '\n', ' ');
    throw ConfigError(message);
  }
  if (top_level) return Notice{app.help()};
  for (std::size_t v = 0; v < kVerbs.size(); ++v) {
    const VerbParser& parser = parsers[v];
    if (!parser.app->parsed()) continue;
    command.verb = static_cast<Verb>(v);
    if (const auto extras = parser.app->remaining(); !extras.empty()) fail_on_extras(extras, command.verb);
    if (const auto file = parser.given.find("experiment");
        file != parser.given.end() && !file->second.empty())
      apply_experiment(find_file(file->second.front(), find_data_files(program).experiments(), "experiment"),
                       command.settings);
    apply_all(parser, command.verb, command.settings);
    if (positional.empty()) continue;
    if (!parser.given.at(std::string(kVerbs[v].positional)).empty())
      throw ConfigError(
          fmt::format("'{}' and --{} are both given; keep one", positional, kVerbs[v].positional));
    apply(*find_option(kVerbs[v].positional), positional, command.settings);
  }
  return command;
}

}  // namespace tpplan
