#include "executor/train/dataset.hpp"

#include <cmath>
#include <cstring>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <sys/stat.h>

namespace tpplan::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class DatasetTest : public ::testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& bytes) {
    const fs::path file = fs::path(::testing::TempDir()) / ("dataset_" + name);
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }
  template <class T>
  static std::string bytes_of(const std::vector<T>& values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  static std::string header(std::int32_t magic, std::int32_t version, std::int32_t count) {
    std::vector<std::int32_t> values(256);
    values[0] = magic;
    values[1] = version;
    values[2] = count;
    return bytes_of(values);
  }
  static std::string error_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(DatasetTest, TextIsBytesAndTargetsFollowInputs) {
  const Dataset set = Dataset::open(write("a.txt", "abcdefghij"), TokenFormat::automatic, 256);
  EXPECT_EQ(set.tokens(), 10);
  // (10 - 1) / 4 = 2 windows: "abcd" before "e", "efgh" before "i".
  std::set<std::string> seen;
  for (int number = 0; number < 2; ++number) {
    std::vector<std::int32_t> out(5);
    set.sample(1, number, out);
    seen.insert(std::string(out.begin(), out.end()));
  }
  EXPECT_EQ(seen, (std::set<std::string>{"abcde", "efghi"}));
}

TEST_F(DatasetTest, TokensOfBothWidthsRawAndWithHeader) {
  const std::vector<std::uint16_t> narrow{5, 6, 7, 65535};
  const std::vector<std::uint32_t> wide{5, 6, 7, 100'000};
  const auto last = [](const Dataset& set) {
    std::vector<std::int32_t> out(static_cast<std::size_t>(set.tokens()));
    set.sample(0, 0, out);
    return out.back();
  };
  EXPECT_EQ(last(Dataset::open(write("raw16.bin", bytes_of(narrow)), TokenFormat::automatic, 70'000)), 65535);
  EXPECT_EQ(last(Dataset::open(write("raw32.bin", bytes_of(wide)), TokenFormat::uint32, 200'000)), 100'000);
  EXPECT_EQ(last(Dataset::open(write("h16.bin", header(20240520, 1, 4) + bytes_of(narrow)),
                               TokenFormat::automatic, 70'000)),
            65535);
  EXPECT_EQ(last(Dataset::open(write("h32.bin", header(20240801, 7, 4) + bytes_of(wide)),
                               TokenFormat::automatic, 200'000)),
            100'000);
}

TEST_F(DatasetTest, EveryEpochVisitsEveryWindowOnceInAnotherOrder) {
  std::string text(1001, 'x');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i / 10);
  const Dataset set = Dataset::open(write("epochs.txt", text), TokenFormat::automatic, 256);
  std::vector<std::vector<int>> orders(2);
  for (int number = 0; number < 200; ++number) {
    std::vector<std::int32_t> out(11);
    set.sample(42, number, out);
    orders[static_cast<std::size_t>(number / 100)].push_back(out[0]);
  }
  for (const auto& order : orders) EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), 100U);
  EXPECT_NE(orders[0], orders[1]);
}

TEST(Permutation, IsABijectionForEverySize) {
  for (const std::int64_t n : {1, 2, 3, 4, 5, 17, 64, 65, 1000}) {
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < n; ++i) seen.insert(permuted(i, n, 12345));
    EXPECT_EQ(static_cast<std::int64_t>(seen.size()), n);
    EXPECT_GE(*seen.begin(), 0);
    EXPECT_LT(*seen.rbegin(), n);
  }
}

TEST_F(DatasetTest, UnigramEntropyOfTwoEqualBytesIsLnTwo) {
  const Dataset set = Dataset::open(write("ab.txt", "abababab"), TokenFormat::automatic, 256);
  EXPECT_NEAR(set.unigram_entropy(), std::log(2.0), 1e-12);
}

TEST_F(DatasetTest, WrongFilesAreRefusedByNameAndRemedy) {
  const auto open = [&](const fs::path& file, TokenFormat format = TokenFormat::automatic,
                        int vocabulary = 256) {
    return error_of([&] { (void)Dataset::open(file, format, vocabulary); });
  };
  EXPECT_THAT(open("/no/such/file"), HasSubstr("/no/such/file: cannot be read"));
  EXPECT_THAT(open("/tmp"), HasSubstr("plain file"));
  EXPECT_THAT(open(write("empty.txt", "")), HasSubstr("is empty"));
  EXPECT_THAT(open(write("odd.bin", "abc")), HasSubstr("3 bytes are no whole number of 2-byte tokens"));
  EXPECT_THAT(open(write("cut.bin", header(20240520, 1, 100) + "ab")),
              HasSubstr("promises 100 tokens and it holds 1"));
  EXPECT_THAT(open(write("wide.bin", header(20240801, 7, 0)), TokenFormat::uint16), HasSubstr("32-bit"));
  EXPECT_THAT(open(write("short.bin", header(20240520, 1, 4).substr(0, 1000))),
              HasSubstr("cut off inside its header"));
  EXPECT_THAT(open(write("version.bin", header(20240520, 2, 1) + "ab")), HasSubstr("version 2; 1 is known"));
  EXPECT_THAT(open(write("odd16.bin", header(20240520, 1, 1) + "abc")),
              HasSubstr("3 bytes after its header"));
  const fs::path pipe = fs::path(::testing::TempDir()) / "dataset_pipe";
  fs::remove(pipe);
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(open(pipe), HasSubstr("plain file"));
  EXPECT_THAT(open(write("small.txt", "abc"), TokenFormat::automatic, 100), HasSubstr("vocabulary of 256"));
  const Dataset tiny = Dataset::open(write("tiny.txt", "abcd"), TokenFormat::automatic, 256);
  EXPECT_THAT(error_of([&] { tiny.require(4); }), HasSubstr("4 tokens are too few"));
  const Dataset high = Dataset::open(write("high.bin", bytes_of(std::vector<std::uint16_t>{1, 900, 2})),
                                     TokenFormat::automatic, 500);
  std::vector<std::int32_t> out(3);
  EXPECT_THAT(error_of([&] { high.sample(0, 0, out); }), HasSubstr("token 1 is 900"));
}

}  // namespace
}  // namespace tpplan::testing
