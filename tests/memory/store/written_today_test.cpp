#include "memory/store/written_today.hpp"

#include <gtest/gtest.h>

namespace rondo {
namespace {

constexpr int64_t day_of_writing = WrittenToday::seconds_a_day, noon_of_writing = 20'000 * day_of_writing + 43'200;

TEST(WrittenToday, CountsOneDay) {
    WrittenToday written;
    EXPECT_EQ(written.bytes(noon_of_writing), 0U);
    written.add(100, noon_of_writing);
    written.add(20, noon_of_writing + 43'199);
    EXPECT_EQ(written.bytes(noon_of_writing + 43'199), 120U);
    EXPECT_EQ(written.bytes(noon_of_writing + 43'200), 0U) << "midnight";
    written.add(3, noon_of_writing + day_of_writing);
    EXPECT_EQ(written.bytes(noon_of_writing + day_of_writing), 3U);
}

TEST(WrittenToday, AClockThatGoesBackOverMidnightBeginsNoDayAnew) {
    WrittenToday written;
    written.add(100, noon_of_writing + day_of_writing);
    EXPECT_EQ(written.bytes(noon_of_writing), 100U);
    written.add(20, noon_of_writing);
    EXPECT_EQ(written.bytes(noon_of_writing), 120U);
    EXPECT_EQ(written.bytes(noon_of_writing + day_of_writing), 0U) << "the next day by the right clock";
}

TEST(WrittenToday, AClockThatWasFurtherAheadIsRightAgain) {
    WrittenToday written;
    written.add(100, noon_of_writing + 2 * day_of_writing);
    EXPECT_EQ(written.bytes(noon_of_writing), 0U);
    written.add(20, noon_of_writing);
    EXPECT_EQ(written.bytes(noon_of_writing), 20U);
}

TEST(WrittenToday, IsReadAsItWasTold) {
    WrittenToday written;
    written.add(0x1122'3344'5566'7788, noon_of_writing);
    const std::string value = written.value();
    EXPECT_EQ(value, std::string("\x20\x4e\0\0\0\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11", 16)) << "day 20,000";
    WrittenToday read(value);
    EXPECT_EQ(read.bytes(noon_of_writing), 0x1122'3344'5566'7788U);
    EXPECT_EQ(read.bytes(noon_of_writing + day_of_writing), 0U);
    EXPECT_EQ(WrittenToday(value.substr(0, 7)).bytes(noon_of_writing), 0U) << "it is cut off";
    EXPECT_EQ(WrittenToday("").bytes(noon_of_writing), 0U);
}

}  // namespace
}  // namespace rondo
