#include "simulator/units/units.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdexcept>

namespace tpplan {
namespace {

using ::testing::HasSubstr;

TEST(Units, DecimalAndBinaryPrefixesDiffer) {
  EXPECT_EQ(parse_bytes("80 GiB").value(), 80.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(parse_bytes("80 GB").value(), 80e9);
  EXPECT_EQ(parse_bytes("80GB").value(), 80e9);  // the blank is optional
}

TEST(Units, BitsAreAnEighthOfBytes) {  // 200 Gbit/s = 25 GB/s
  EXPECT_EQ(parse_bandwidth("200 Gbit/s").value(), parse_bandwidth("25 GB/s").value());
}

TEST(Units, BytesOverBandwidthAreSeconds) {  // 3 GB at 300 GB/s = 10 ms
  EXPECT_DOUBLE_EQ((Bytes{3e9} / parse_bandwidth("300 GB/s")).value(), 0.010);
}

TEST(Units, EachWrongInputSaysWhatIsRight) {
  const auto message = [](std::string_view text) -> std::string {
    try {
      return "accepted " + to_string(parse_bytes(text));
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
  };
  EXPECT_THAT(message("80"), HasSubstr("has no unit; write it as '80 GiB'"));
  EXPECT_THAT(message("80 GIB"), HasSubstr("unknown unit 'GIB'"));
  EXPECT_THAT(message("nan GiB"), HasSubstr("not a finite number"));
  EXPECT_THAT(message("inf GiB"), HasSubstr("not a finite number"));
  EXPECT_THAT(message("-1 GiB"), HasSubstr("not a finite number of zero or more"));
  EXPECT_THAT(message("1e999 GiB"), HasSubstr("is not a number"));
  EXPECT_THAT(message(""), HasSubstr("is not a number with a unit"));
}

TEST(Units, PrintsThreeSignificantDigits) {
  EXPECT_EQ(to_string(gibibytes(74.25)), "74.2 GiB");
  EXPECT_EQ(to_string(Seconds{1.846}), "1.85 s");
  EXPECT_EQ(to_string(Seconds{0.0123}), "12.3 ms");
  EXPECT_EQ(to_string(gigabytes_per_second(300)), "300 GB/s");
  EXPECT_EQ(to_string(teraflops(312)), "312 TFLOP/s");
  EXPECT_EQ(count_to_string(9.83e9), "9.83B");
  EXPECT_EQ(count_to_string(124439808), "124M");
}

}  // namespace
}  // namespace tpplan
