// File systems that make no holes: space comes back with whole segments.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/memory/store/disk_faults.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

namespace rondo {
namespace {

using Refusal = KvStore::Refusal;

class NoHolesTest : public testing::StoreTest {
protected:
    NoHolesTest() {
        options_.bytes_max = uint64_t{512} << 10;
        options_.segments.segment_bytes = uint64_t{64} << 10;
        testing::DiskFaults::begin({.folder = folder_.path(), .kind = testing::DiskFaults::Kind::no_holes});
        open();
    }
    ~NoHolesTest() override {
        close();
        testing::DiskFaults::end();
    }
    static Round numbered(int number) { return round("t", nullptr, 1000 * number, 64); }
    uint64_t on_disk() const {
        uint64_t bytes = 0;
        for (const auto& file : segment_files()) {
            struct stat what = {};
            stat(file.c_str(), &what);
            bytes += static_cast<uint64_t>(what.st_blocks) * 512;
        }
        return bytes;
    }
    int there(int from, int to) {
        int count = 0;
        for (int i = from; i < to; ++i) count += is_there(numbered(i));
        return count;
    }
};

TEST_F(NoHolesTest, TheLimitHoldsAndWhatIsYoungIsThere) {
    for (int i = 0; i < 200; ++i) {
        ASSERT_NE(write(numbered(i)), Refusal::disk);
        ASSERT_LE(store_->bytes(), options_.bytes_max);
        ASSERT_LE(on_disk(), options_.bytes_max + 4096 * segment_files().size());
    }
    const int records = static_cast<int>(store_->index().count());
    EXPECT_GT(records, 20);
    EXPECT_EQ(there(200 - records, 200), records) << "the oldest have gone, whole segments at a time";
    EXPECT_GE(store_->counts().written, 199) << "the first that needed room may have found none";
    const uint64_t bytes = store_->bytes();
    open();
    EXPECT_LE(store_->bytes(), bytes);
    EXPECT_EQ(static_cast<int>(store_->index().count()), records);
    for (int i = 200; i < 300; ++i) {
        ASSERT_NE(write(numbered(i)), Refusal::disk);
        ASSERT_LE(store_->bytes(), options_.bytes_max);
    }
    EXPECT_GT(there(250, 300), 20);
}

/// Its beginning lies in the oldest segment.
TEST_F(NoHolesTest, NobodyGoesForWhatStandsBehindHim) {
    std::vector<Round> chain{numbered(0)};
    int written = 0;
    while (written < 100 && write(chain.back()) == Refusal::none)
        chain.push_back(round("t", &chain.back(), 1000 * ++written, 64));
    // What is not known to have no holes yet may lose its last one.
    const auto is_known = [&](int number) {
        return store_->index().find(name_of(chain[static_cast<size_t>(number)])) != nullptr;
    };
    while (written > 0 && !is_known(written - 1)) --written;
    EXPECT_GT(written, 20);
    EXPECT_LT(written, 100);
    const Round behind = round("t", &chain[static_cast<size_t>(written - 1)], 1000 * 200, 64);
    EXPECT_EQ(write(behind, 1e9), Refusal::no_room);
    EXPECT_EQ(static_cast<int>(store_->index().count()), written);
    for (int i = 0; i < written; ++i) EXPECT_TRUE(is_known(i)) << i;
    EXPECT_EQ(write(numbered(500)), Refusal::none) << "for another one they go";
}

TEST_F(NoHolesTest, WhereThatIsNotEnoughNobodyGoes) {
    for (int i = 0; i < 20; ++i) ASSERT_EQ(write(numbered(i)), Refusal::none);
    ASSERT_TRUE(store_->remove(name_of(numbered(0)))) << "now it is known that there are no holes";
    options_.bytes_free_min = std::filesystem::space(options_.path).available + (uint64_t{1} << 30);
    open();
    ASSERT_EQ(write(numbered(20)), Refusal::no_room);
    EXPECT_EQ(there(1, 20), 19);
}

/// What is removed from the segment that is written to must not stay there for ever.
TEST_F(NoHolesTest, ASegmentOfWhatWasRemovedGoesToo) {
    options_.segments.segment_bytes = options_.bytes_max;
    open();
    int written = 0;
    for (int i = 0; i < 200; ++i) {
        if (write(numbered(i)) != Refusal::none) continue;
        ++written;
        ASSERT_TRUE(store_->remove(name_of(numbered(i))));
    }
    EXPECT_EQ(written, 200);
    EXPECT_LE(store_->bytes(), options_.bytes_max);
    EXPECT_LE(segment_files().size(), 2U);
}

/// The bytes are zeros at once; their space waits for the segment.
TEST_F(NoHolesTest, WhatIsRemovedIsInNoFile) {
    ASSERT_EQ(write(numbered(1)), Refusal::none);
    ASSERT_EQ(write(numbered(2)), Refusal::none);
    const RecordHeader header = header_of(numbered(1));
    const AlignedBytes kv = bytes_of(header, 1);
    const std::string_view some(reinterpret_cast<const char*>(kv.span().data()), 64);
    ASSERT_TRUE(any_file_has(some));
    const uint64_t before = store_->bytes();
    ASSERT_TRUE(store_->remove(name_of(numbered(1))));
    EXPECT_FALSE(any_file_has(some));
    EXPECT_EQ(store_->bytes(), before);
    EXPECT_TRUE(is_there(numbered(2)));
    open();
    EXPECT_EQ(store_->bytes(), before) << "a start counts it, too";
}

/// A start would write as much as was ever removed, each time.
TEST_F(NoHolesTest, AStartWritesZerosOnlyWhereThereAreNone) {
    for (const int number : {1, 2}) ASSERT_EQ(write(numbered(number)), Refusal::none);
    const RecordPlace place = store_->index().find(name_of(numbered(1)))->place;
    ASSERT_TRUE(store_->remove(name_of(numbered(1))));
    close();
    const auto zeros_of_a_start = [this] {
        testing::DiskFaults::begin({.folder = folder_.path(), .kind = testing::DiskFaults::Kind::no_holes});
        open();
        const std::vector<std::string> met = testing::DiskFaults::end();
        testing::DiskFaults::begin({.folder = folder_.path(), .kind = testing::DiskFaults::Kind::no_holes});
        return std::ranges::count(met, "pwrite kv-");
    };
    EXPECT_EQ(zeros_of_a_start(), 0);
    close();
    const std::string_view left = "left-by-a-crash";
    std::fstream segment(options_.path + '/' + Segments::name_of(place.segment), std::ios::in | std::ios::out);
    segment.seekp(static_cast<std::streamoff>(place.offset + 100));
    segment << left << std::flush;
    ASSERT_TRUE(any_file_has(left));
    EXPECT_EQ(zeros_of_a_start(), 1);
    EXPECT_FALSE(any_file_has(left));
    EXPECT_TRUE(is_there(numbered(2)));
}

}  // namespace
}  // namespace rondo
