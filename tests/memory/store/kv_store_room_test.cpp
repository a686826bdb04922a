#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memory/store/kv_store.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using Refusal = KvStore::Refusal;
using ::testing::ElementsAre;

constexpr int64_t a_day = 24 * 3600;

class KvStoreRoomTest : public testing::StoreTest, public ::testing::WithParamInterface<bool> {
protected:
    KvStoreRoomTest() {
        if (GetParam()) options_.keys.emplace(testing::some_root());
        open();
    }
};

INSTANTIATE_TEST_SUITE_P(Bytes, KvStoreRoomTest, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "sealed" : "plain"; });

TEST_P(KvStoreRoomTest, RoomIsMadeByWhatSavesLeast) {
    const Round first = round("t", nullptr, 0, 64), behind = round("t", &first, 64, 64);
    const uint64_t each = [&] {
        RecordHeader header = header_of(first);
        header.lay_out();
        return header.record_bytes();
    }();
    options_.bytes_max = 4 * each + 4 * disk_alignment;
    options_.segments.segment_bytes = 64 * each;
    open();
    const Round dear = round("t", nullptr, 5000, 64), cheap = round("t", nullptr, 9000, 64);
    ASSERT_EQ(write(first, 0.1), Refusal::none);
    ASSERT_EQ(write(behind, 5.0), Refusal::none);
    ASSERT_EQ(write(dear, 9.0), Refusal::none);
    ASSERT_EQ(write(cheap, 0.2), Refusal::none);
    ASSERT_EQ(write(round("t", nullptr, 20'000, 64), 3.0), Refusal::none);
    EXPECT_FALSE(is_there(cheap));
    EXPECT_TRUE(is_there(first)) << "something stands behind it";
    EXPECT_EQ(store_->counts().evicted, 1);
    EXPECT_EQ(store_->counts().never_read, 1);
    EXPECT_EQ(store_->counts().bytes_never_read, each);
    EXPECT_LE(store_->bytes(), options_.bytes_max);
    EXPECT_EQ(write(round("t", nullptr, 30'000, 64), 0.01), Refusal::no_room) << "all others are worth more";
    RecordHeader huge = header_of(round("t", nullptr, 40'000, 6400));
    EXPECT_EQ(store_->begin(huge, 1e9).refusal, Refusal::too_large);
    EXPECT_EQ(store_->index().count(), 4U) << "it evicts nobody";
    EXPECT_EQ(store_->counts().refused[static_cast<size_t>(Refusal::too_large)], 1);
}

/// What it stands behind would be lost with it: it would not be found.
TEST_P(KvStoreRoomTest, NobodyGoesForWhatStandsBehindHim) {
    std::vector<Round> chain{round("t", nullptr, 0, 64)};
    for (int i = 1; i < 4; ++i) chain.push_back(round("t", &chain.back(), 1000 * i, 64));
    RecordHeader header = header_of(chain[1]);
    header.lay_out();
    options_.bytes_max = 3 * header.record_bytes() + 4 * disk_alignment;
    options_.segments.segment_bytes = 64 * header.record_bytes();
    open();
    for (int i = 0; i < 3; ++i) ASSERT_EQ(write(chain[static_cast<size_t>(i)], 1.0), Refusal::none);
    now_ += 100;
    EXPECT_EQ(write(chain[3], 50.0), Refusal::no_room);
    EXPECT_EQ(store_->index().count(), 3U);
    EXPECT_EQ(write(round("t", nullptr, 9000, 64), 50.0), Refusal::none) << "for another one the last goes";
    EXPECT_FALSE(is_there(chain[2]));
    EXPECT_TRUE(is_there(chain[1]));
}

TEST_P(KvStoreRoomTest, TheLimitHoldsWhateverIsWritten) {
    options_.bytes_max = uint64_t{256} << 10;
    options_.segments.segment_bytes = uint64_t{64} << 10;
    open();
    std::mt19937 random(2);
    int written = 0;
    for (int i = 0; i < 100; ++i) {
        now_ += 10;
        const Refusal refusal =
            write(round("t", nullptr, 1000 * i, 16 + static_cast<int>(random() % 200)), 0.01 * (i + 1));
        EXPECT_TRUE(refusal == Refusal::none || refusal == Refusal::no_room);
        written += refusal == Refusal::none;
        ASSERT_LE(store_->bytes(), options_.bytes_max);
        uint64_t on_disk = 0;
        for (const fs::path& file : segment_files()) {
            struct stat what = {};
            stat(file.c_str(), &what);
            on_disk += static_cast<uint64_t>(what.st_blocks) * 512;
        }
        ASSERT_LE(on_disk, options_.bytes_max + 4096 * segment_files().size()) << "file systems keep lists of holes";
    }
    EXPECT_GT(written, 60);
}

/// Of the disk so much stays free for others.
TEST_P(KvStoreRoomTest, WhatMustStayFreeIsNotTaken) {
    ASSERT_EQ(write(round("t", nullptr, 0, 64)), Refusal::none);
    options_.bytes_free_min = fs::space(options_.path).available + (uint64_t{1} << 30);
    open();
    EXPECT_EQ(write(round("t", nullptr, 1000, 64), 1e9), Refusal::no_room);
    EXPECT_TRUE(is_there(round("t", nullptr, 0, 64))) << "its going would not make room enough";
    options_.bytes_free_min = fs::space(options_.path).available / 2;
    open();
    EXPECT_EQ(write(round("t", nullptr, 1000, 64)), Refusal::none);
}

TEST_P(KvStoreRoomTest, ATenantHasHisShare) {
    const Round one = round("a", nullptr, 0, 64);
    RecordHeader header = header_of(one);
    header.lay_out();
    options_.tenant_bytes_max = 2 * header.record_bytes();
    open();
    ASSERT_EQ(write(one), Refusal::none);
    ASSERT_EQ(write(round("b", nullptr, 0, 64)), Refusal::none);
    ASSERT_EQ(write(round("a", nullptr, 1000, 64)), Refusal::none);
    now_ += 100;
    ASSERT_EQ(write(round("a", nullptr, 2000, 64)), Refusal::none);
    EXPECT_EQ(store_->index().bytes_of(store_->tenant_name("a")), options_.tenant_bytes_max);
    EXPECT_TRUE(is_there(round("b", nullptr, 0, 64))) << "another's is left alone";
    EXPECT_EQ(store_->begin(header_of(round("a", nullptr, 3000, 6400)), 1.0).refusal, Refusal::quota);
    EXPECT_EQ(store_->index().count(), 3U);
}

TEST_P(KvStoreRoomTest, NoMoreIsWrittenADayThanMayBe) {
    RecordHeader header = header_of(round("t", nullptr, 0, 64));
    header.lay_out();
    options_.written_a_day_max = 2 * header.record_bytes();
    open();
    EXPECT_EQ(write(round("t", nullptr, 0, 64)), Refusal::none);
    EXPECT_EQ(write(round("t", nullptr, 1000, 64)), Refusal::none);
    EXPECT_EQ(write(round("t", nullptr, 2000, 64)), Refusal::written_enough);
    open();
    EXPECT_EQ(write(round("t", nullptr, 2000, 64)), Refusal::written_enough) << "a start does not forget it";
    now_ += 24 * 3600;
    EXPECT_EQ(write(round("t", nullptr, 2000, 64)), Refusal::none);
}

TEST_P(KvStoreRoomTest, WhatIsOnItsWayCountsAsWritten) {
    RecordHeader header = header_of(round("t", nullptr, 0, 64));
    header.lay_out();
    options_.written_a_day_max = 2 * header.record_bytes();
    open();
    const KvStore::Begun first = store_->begin(header_of(round("t", nullptr, 0, 64)), 1.0),
                         second = store_->begin(header_of(round("t", nullptr, 1000, 64)), 1.0),
                         third = store_->begin(header_of(round("t", nullptr, 2000, 64)), 1.0);
    EXPECT_NE(second.writing, nullptr);
    EXPECT_EQ(third.refusal, Refusal::written_enough);
}

/// A clock that was a little ahead, and is right again.
TEST_P(KvStoreRoomTest, AClockThatGoesBackBeginsNoDayAnew) {
    RecordHeader header = header_of(round("t", nullptr, 0, 64));
    header.lay_out();
    options_.written_a_day_max = 2 * header.record_bytes();
    open();
    now_ += a_day;
    EXPECT_EQ(write(round("t", nullptr, 0, 64)), Refusal::none);
    now_ -= a_day;
    EXPECT_EQ(write(round("t", nullptr, 1000, 64)), Refusal::none);
    EXPECT_EQ(write(round("t", nullptr, 2000, 64)), Refusal::written_enough);
    now_ += a_day;
    EXPECT_EQ(write(round("t", nullptr, 2000, 64)), Refusal::none) << "the next day by the right clock";
}

/// Else nothing would be written until the date that the clock showed.
TEST_P(KvStoreRoomTest, AClockThatWasFarAheadStopsNothing) {
    RecordHeader header = header_of(round("t", nullptr, 0, 64));
    header.lay_out();
    options_.written_a_day_max = 2 * header.record_bytes();
    open();
    now_ += 100 * a_day;
    for (const int i : {0, 1}) EXPECT_EQ(write(round("t", nullptr, 1000 * i, 64)), Refusal::none);
    EXPECT_EQ(write(round("t", nullptr, 2000, 64)), Refusal::written_enough);
    now_ -= 100 * a_day;
    for (const int i : {2, 3}) EXPECT_EQ(write(round("t", nullptr, 1000 * i, 64)), Refusal::none);
    EXPECT_EQ(write(round("t", nullptr, 4000, 64)), Refusal::written_enough) << "the day has its limit";
    open();
    EXPECT_EQ(write(round("t", nullptr, 4000, 64)), Refusal::written_enough);
}

/// A start knows it from the manifest, where not every use is written.
TEST_P(KvStoreRoomTest, AStartDoesNotForgetWhatWasUsed) {
    const Round old = round("t", nullptr, 0, 40), used = round("t", nullptr, 1000, 40);
    ASSERT_EQ(write(old), Refusal::none);
    ASSERT_EQ(write(used), Refusal::none);
    now_ += options_.unused_seconds_max;
    store_->use(name_of(used));
    ASSERT_TRUE(store_->expire());
    open();
    now_ += options_.unused_seconds_max / 2;
    ASSERT_TRUE(store_->expire());
    EXPECT_FALSE(is_there(old));
    EXPECT_TRUE(is_there(used));
}

TEST_P(KvStoreRoomTest, UnusedRoundsAreNotKept) {
    const Round old = round("t", nullptr, 0, 40), used = round("t", nullptr, 1000, 40);
    ASSERT_EQ(write(old), Refusal::none);
    ASSERT_EQ(write(used), Refusal::none);
    now_ += options_.unused_seconds_max;
    store_->use(name_of(used));
    now_ += 1;
    ASSERT_TRUE(store_->expire());
    EXPECT_FALSE(is_there(old));
    EXPECT_TRUE(is_there(used));
    EXPECT_EQ(store_->counts().expired, 1);
}

}  // namespace
}  // namespace rondo
