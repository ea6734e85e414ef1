#include "simulator/document/document.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tpplan {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

template <class Work>
std::string message_of(Work work) {
  try {
    work();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Document, UnknownKeyNamesPlaceAndNearestSpelling) {
  const Value root = parse_document("name: x\nhiden: 3\n", "m.yaml");
  const std::string message = message_of([&] {
    MapReader map = root.map();
    (void)map.required("name");
    (void)map.optional("hidden");
    map.finish();
  });
  EXPECT_EQ(message, "m.yaml:2:8: hiden: unknown key 'hiden'; did you mean 'hidden'?");
}

TEST(Document, MisspeltRequiredKeyIsNamedRatherThanMissing) {
  MapReader map = parse_document("layrs: 3", "m.yaml").map();
  EXPECT_THAT(message_of([&] { (void)map.required("layers"); }),
              HasSubstr("unknown key 'layrs'; did you mean 'layers'?"));
}

TEST(Document, NumbersOutOfRangeAreRefused) {
  const auto read = [](const std::string& text) {
    return message_of([&] { (void)parse_document("n: " + text, "f").map().required("n").integer(1, 100); });
  };
  EXPECT_THAT(read("1000000000000000000000"), HasSubstr("outside 1 .. 100"));
  EXPECT_THAT(read("101"), HasSubstr("outside 1 .. 100"));
  EXPECT_THAT(read("-3"), HasSubstr("outside 1 .. 100"));
  EXPECT_THAT(read("1.5"), HasSubstr("must be a whole number"));
  EXPECT_THAT(read(".nan"), HasSubstr("must be a whole number"));
  EXPECT_THAT(read("[1]"), HasSubstr("must be a single value"));
}

TEST(Document, QuantityNeedsItsUnit) {
  const Value value = parse_document("bandwidth: 300", "t.yaml").map().required("bandwidth");
  EXPECT_THAT(message_of([&] { (void)value.bandwidth(); }),
              StartsWith("t.yaml:1:12: bandwidth: '300' has no unit; write it as '300 GB/s'"));
}

TEST(Document, ZeroBandwidthIsRefused) {
  const Value value = parse_document("b: 0 GB/s", "t.yaml").map().required("b");
  EXPECT_THAT(message_of([&] { (void)value.bandwidth(); }), HasSubstr("must be more than zero"));
}

TEST(Document, DuplicateKeysAreRefused) {
  EXPECT_THAT(message_of([] { (void)parse_document("{\"a\": 1, \"a\": 2}", "c.json"); }),
              HasSubstr("c.json:1:10: key 'a' is given twice"));
}

TEST(Document, DeepNestingIsRefusedBeforeItIsParsed) {
  EXPECT_THAT(message_of([] { (void)parse_document(std::string(100000, '['), "d.json"); }),
              HasSubstr("deeper than 64"));
  std::string block;
  for (int i = 0; i < 100; ++i) block += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_THAT(message_of([&] { (void)parse_document(block, "d.yaml"); }), HasSubstr("deeper than 64"));
  std::string list;  // deeper than the parser itself goes
  for (int i = 0; i < 10000; ++i) list += "- ";
  EXPECT_THAT(message_of([&] { (void)parse_document(list, "d.yaml"); }), HasSubstr("deeper than 64"));
}

TEST(Document, AliasesOfAliasesAreRefusedBeforeTheyAreWalked) {
  // Nine lists of nine aliases each: 9^9 = 387 million nodes from 400 bytes.
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n";
  for (char name = 'b'; name < 'j'; ++name) {
    bomb += std::string(1, name) + ": &" + name + " [";
    for (int i = 0; i < 9; ++i) bomb += std::string(i > 0 ? ", *" : "*") + static_cast<char>(name - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(message_of([&] { (void)parse_document(bomb, "b.yaml"); }),
              HasSubstr("aliases repeat each other too often"));
  EXPECT_EQ(message_of([] { (void)parse_document("a: &a {b: 1}\nc: *a\n", "f.yaml"); }), "no error");
}

TEST(Document, AFileHoldsOneDocument) {
  EXPECT_THAT(message_of([] { (void)parse_document("{\"a\": 1}\n{\"a\": 2}\n", "c.json"); }),
              StartsWith("c.json:2:1: a second document begins here"));
  EXPECT_EQ(message_of([] { (void)parse_document("---\na: 1\n...\n", "c.yaml"); }), "no error");
}

TEST(Document, BadSyntaxHasAPlace) {
  EXPECT_THAT(message_of([] { (void)parse_document("a: [1, 2\nb: 3", "s.yaml"); }), StartsWith("s.yaml:2:"));
}

TEST(Document, MissingFileAndFolderAreTheUsersMistake) {
  EXPECT_THAT(message_of([] { (void)read_document("/no/such/file.yaml"); }), HasSubstr("no such file"));
  EXPECT_THAT(message_of([] { (void)read_document("/"); }), HasSubstr("is a folder"));
}

TEST(Document, FailedWriteLeavesNothingBehind) {
  EXPECT_THROW(write_file("/no/such/folder/x.yaml", "text"), SystemError);
  const auto file = std::filesystem::temp_directory_path() / "tpplan_document_test.txt";
  write_file(file, "one");
  write_file(file, "two");
  std::ifstream stream(file);
  std::string text;
  stream >> text;
  EXPECT_EQ(text, "two");
  std::filesystem::remove(file);
}

TEST(Document, WritingFollowsALinkAndLeavesAPipeAPipe) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("tpplan_links_{}", getpid());
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "file") << "old";
  std::filesystem::create_symlink("file", folder / "link");
  write_file(folder / "link", "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  std::string text;
  std::ifstream(folder / "file") >> text;
  EXPECT_EQ(text, "new");

  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const int reader = open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  write_file(folder / "pipe", "through");
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
  std::array<char, 16> bytes{};
  EXPECT_EQ(read(reader, bytes.data(), bytes.size()), 7);  // "through"
  close(reader);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tpplan
