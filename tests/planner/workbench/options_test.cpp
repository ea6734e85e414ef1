#include "planner/workbench/options.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <stdexcept>

namespace tpplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The message of a refusal; empty when the text is accepted.
std::string refusal(std::string_view name, const std::string& text) {
  Settings settings;
  try {
    set_option(*find_option(name), settings, text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(OptionTable, NamesAreUniqueAndEveryOptionHasAVerbAndAText) {
  std::set<std::string_view> names;
  for (const OptionSpec& option : option_table()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_NE(option.verbs, 0U) << option.name;
    EXPECT_FALSE(option.text.empty() || option.standard.empty()) << option.name;
    EXPECT_NE(option.store, nullptr) << option.name;
    EXPECT_EQ(value_form(option).empty(), option.kind == OptionKind::flag) << option.name;
  }
}

TEST(OptionTable, TheBareArgumentOfAVerbIsOneOfItsOptions) {
  for (std::size_t v = 0; v < kVerbs.size(); ++v) {
    if (kVerbs[v].positional.empty()) continue;
    const OptionSpec* option = find_option(kVerbs[v].positional);
    ASSERT_NE(option, nullptr) << kVerbs[v].name;
    EXPECT_TRUE(option->belongs_to(static_cast<Verb>(v))) << kVerbs[v].name;
  }
}

TEST(OptionTable, IntegersAreAcceptedInTheirRangeAndOneBeyondIsRefused) {
  for (const OptionSpec& option : option_table()) {
    if (option.kind != OptionKind::integer) continue;
    EXPECT_FALSE(option.unit.empty()) << option.name;
    for (const std::int64_t number : {option.lowest, option.highest})
      EXPECT_EQ(refusal(option.name, fmt::format("{}", number)), "") << option.name;
    for (const std::int64_t number : {option.lowest - 1, option.highest + 1})
      EXPECT_EQ(
          refusal(option.name, fmt::format("{}", number)),
          fmt::format("'{}' must be a whole number from {} to {}", number, option.lowest, option.highest))
          << option.name;
    for (const char* text : {"", " 8", "8 ", "+8", "8.0", "1e3", "0x8", "eight", "9223372036854775808"})
      EXPECT_NE(refusal(option.name, text), "") << option.name << " accepts '" << text << "'";
  }
}

TEST(OptionTable, EveryChoiceIsAcceptedAndASlipNamesTheNearest) {
  for (const OptionSpec& option : option_table()) {
    if (option.kind != OptionKind::choice) continue;
    for (const std::string_view name : option.choices)
      EXPECT_EQ(refusal(option.name, std::string(name)), "") << name;
    EXPECT_THAT(refusal(option.name, "nonsense"), HasSubstr("must be one of")) << option.name;
  }
  EXPECT_THAT(refusal("precision", "bf61"), HasSubstr("did you mean 'bf16'?"));
  EXPECT_THAT(refusal("precision", "fp8"), HasSubstr("must be one of bf16, fp16, fp32"));
}

TEST(OptionTable, DefaultsInWordsAreTheDefaultsOfTheSettings) {
  for (const char* name :
       {"precision", "memory-margin", "objective", "top", "framework", "nccl-algorithm", "worst"}) {
    const OptionSpec& option = *find_option(name);
    Settings settings;
    set_option(option, settings, option.standard);
    const Settings untouched;
    EXPECT_EQ(settings.precision, untouched.precision);
    EXPECT_EQ(settings.search.memory_margin, untouched.search.memory_margin);
    EXPECT_EQ(settings.search.objective, untouched.search.objective);
    EXPECT_EQ(settings.search.top, untouched.search.top);
    EXPECT_EQ(settings.framework, untouched.framework);
    EXPECT_EQ(settings.algorithm, untouched.algorithm);
    EXPECT_EQ(settings.worst, untouched.worst);
  }
}

TEST(OptionTable, ListsAreSplitAtCommasAndCheckedOneByOne) {
  Settings settings;
  set_option(*find_option("zero"), settings, "0, 3");
  EXPECT_THAT(settings.search.zero, ElementsAre(ZeroStage::none, ZeroStage::weights));
  set_option(*find_option("schedule"), settings, "gpipe");
  EXPECT_THAT(settings.search.schedule, ElementsAre(ScheduleKind::gpipe));
  EXPECT_THAT(refusal("zero", "0,4"), HasSubstr("'4' must be one of 0, 1, 2, 3"));
  EXPECT_THAT(refusal("zero", "0,,1"), HasSubstr("'' must be"));
  EXPECT_NE(refusal("precision", "bf16,fp16"), "") << "not a list";
}

TEST(OptionTable, AShareIsANumberOrPerCent) {
  Settings settings;
  set_option(*find_option("memory-margin"), settings, "12.5%");
  EXPECT_EQ(settings.search.memory_margin, 0.125);  // exact in binary
  set_option(*find_option("memory-margin"), settings, "0");
  EXPECT_EQ(settings.search.memory_margin, 0);
  for (const char* text : {"1", "100%", "-0.1", "nan", "inf", "", "%", "5 %"})
    EXPECT_THAT(refusal("memory-margin", text), HasSubstr("a share from 0 to less than 1")) << text;
}

TEST(OptionTable, FixHoldsEachAxisAndTheLastOneGivenStands) {
  Settings settings;
  const OptionSpec& fix = *find_option("fix");
  for (const char* text : {"tp=8", "pp=1,2", "dp=4", "vpp=3", "mb=2", "sp=on", "zero=1", "recompute=full",
                           "schedule=1f1b", "tp=4"})
    set_option(fix, settings, text);
  const SearchOptions& o = settings.search;
  EXPECT_THAT(o.tp, ElementsAre(4));
  EXPECT_THAT(o.pp, ElementsAre(1, 2));
  EXPECT_THAT(o.dp, ElementsAre(4));
  EXPECT_THAT(o.vpp, ElementsAre(3));
  EXPECT_THAT(o.micro_batch, ElementsAre(2));
  EXPECT_THAT(o.sequence_parallel, ElementsAre(true));
  EXPECT_THAT(o.zero, ElementsAre(ZeroStage::optimizer));
  EXPECT_THAT(o.recompute, ElementsAre(Recompute::full));
  EXPECT_THAT(o.schedule, ElementsAre(ScheduleKind::one_f_one_b));
  EXPECT_THAT(refusal("fix", "tp"), HasSubstr("'tp' must be axis=value, such as tp=8"));
  EXPECT_THAT(refusal("fix", "ttp=8"), HasSubstr("did you mean 'tp'?"));
  EXPECT_THAT(refusal("fix", "tp=0"), HasSubstr("'0' must be a whole number from 1"));
  EXPECT_THAT(refusal("fix", "sp=maybe"), HasSubstr("'maybe' must be one of false, true"));
}

}  // namespace
}  // namespace tpplan
