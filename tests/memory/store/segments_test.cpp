#include "memory/store/segments.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <set>

#include "tests/flip_bit.hpp"
#include "tests/memory/store/disk_faults.hpp"
#include "tests/memory/store/random_numbers.hpp"
#include "tests/memory/store/store_fixture.hpp"

namespace rondo {
namespace {

constexpr uint64_t step = disk_alignment;

class SegmentsTest : public ::testing::Test {
protected:
    SegmentsTest() { open(); }

    void open() {
        segments_.reset();
        auto opened = Segments::open(folder_, *queue_, {.segment_bytes = 8 * step});
        ASSERT_TRUE(opened) << opened.error().message;
        segments_ = std::move(*opened);
    }
    Status write(const RecordPlace& place, std::byte value) {
        AlignedBytes bytes(place.bytes);
        std::fill_n(bytes.data(), bytes.size(), value);
        std::promise<Status> done;
        segments_->write(place, 0, bytes.span(), [&](Status end) { done.set_value(std::move(end)); });
        return done.get_future().get();
    }
    bool holds(const RecordPlace& place, std::byte value) {
        AlignedBytes bytes(place.bytes);
        std::promise<Status> done;
        segments_->read(place, 0, {bytes.span()}, [&](Status end) { done.set_value(std::move(end)); });
        if (!done.get_future().get()) return false;
        return std::all_of(bytes.data(), bytes.data() + bytes.size(), [&](std::byte byte) { return byte == value; });
    }
    RecordPlace append(uint64_t steps) {
        const auto place = segments_->append(steps * step);
        EXPECT_TRUE(place) << place.error().message;
        return *place;
    }
    RecordPlace record(uint64_t steps, int value) {
        const RecordPlace place = append(steps);
        EXPECT_TRUE(write(place, static_cast<std::byte>(value)));
        return place;
    }
    bool is_within(const RecordPlace& place) const { return Segments::fits(place, segments_->end_of(place.segment)); }
    std::string path_of(uint64_t segment) const {
        char name[32];
        std::snprintf(name, sizeof(name), "/kv-%016llx", static_cast<unsigned long long>(segment));
        return folder_.path() + name;
    }
    uint64_t bytes_on_disk() const {
        uint64_t bytes = 0;
        for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
            struct stat what = {};
            stat(entry.path().c_str(), &what);
            bytes += static_cast<uint64_t>(what.st_blocks) * 512;
        }
        return bytes;
    }

    testing::Folder around_;
    StoreFolder folder_ = StoreFolder::open(around_.path() + "/kv").value();
    std::unique_ptr<DiskQueue> queue_ = DiskQueue::open({}).value();
    std::unique_ptr<Segments> segments_;
};

TEST(Segments, FilesHaveNamesOfTheirNumbers) {
    EXPECT_EQ(Segments::name_of(0x2a), "kv-000000000000002a");
    EXPECT_EQ(Segments::number_of("kv-000000000000002a"), 0x2aU);
    for (const char* other : {"kv-2a", "kv-000000000000002A", "kv-000000000000002a~", "manifest", ""})
        EXPECT_EQ(Segments::number_of(other), 0U) << other;
}

TEST_F(SegmentsTest, NoSegmentBeginsWithoutRandomNumbers) {
    testing::random_numbers_left = 0;
    const auto place = segments_->append(step);
    testing::random_numbers_left = -1;
    ASSERT_FALSE(place);
    EXPECT_EQ(place.error().message, "no random numbers for a segment's salt");
    EXPECT_FALSE(std::filesystem::exists(path_of(1)));
    EXPECT_TRUE(write(append(1), std::byte{1}));
}

TEST_F(SegmentsTest, TheSaltStandsInTheHeader) {
    const uint64_t segment = record(1, 1).segment;
    std::vector<std::byte> header(step);
    std::ifstream(path_of(segment), std::ios::binary).read(reinterpret_cast<char*>(header.data()), step);
    EXPECT_EQ(Segments::salt_in(segment, header).value(), segments_->salt(segment).value());
    EXPECT_EQ(Segments::salt_in(segment + 1, header).error().code, ErrorCode::corrupt);
    EXPECT_FALSE(Segments::salt_in(segment, std::span(header).first(step - 1)));
    for (const size_t at : {0, 9, 13, 20, 51, 52, 60, 4095}) {
        header[at] ^= std::byte{4};
        EXPECT_FALSE(Segments::salt_in(segment, header)) << at;
        header[at] ^= std::byte{4};
    }
}

TEST_F(SegmentsTest, RecordsStandOneBehindTheOtherAndFilesFollow) {
    const RecordPlace a = record(2, 1), b = record(3, 2), c = record(4, 3), huge = record(20, 4);
    EXPECT_EQ(a.segment, b.segment);
    EXPECT_EQ(b.offset, a.offset + a.bytes);
    EXPECT_NE(c.segment, a.segment) << "8 steps, one of which is the header";
    EXPECT_NE(huge.segment, c.segment);
    EXPECT_EQ(segments_->bytes(), (2 + 3 + 4 + 20 + 3) * step);
    int value = 1;
    for (const RecordPlace& place : {a, b, c, huge}) EXPECT_TRUE(holds(place, static_cast<std::byte>(value++)));
    EXPECT_NE(segments_->salt(a.segment).value(), segments_->salt(c.segment).value());
}

TEST_F(SegmentsTest, AfterAStartNothingIsWrittenInOldFiles) {
    const RecordPlace before = record(2, 1);
    const auto salt = segments_->salt(before.segment).value();
    open();
    EXPECT_EQ(segments_->salt(before.segment).value(), salt);
    EXPECT_TRUE(is_within(before));
    EXPECT_TRUE(holds(before, std::byte{1}));
    const RecordPlace behind = record(2, 2);
    EXPECT_GT(behind.segment, before.segment);
    EXPECT_TRUE(holds(before, std::byte{1}));
}

TEST_F(SegmentsTest, GivenBackMeansGoneAndItsSpaceToo) {
    const RecordPlace a = record(2, 0x5a), b = record(3, 0x6b), c = record(5, 0x7c);
    const uint64_t before = bytes_on_disk();
    ASSERT_TRUE(segments_->give_back(a));
    EXPECT_LE(bytes_on_disk(), before - a.bytes);
    std::ifstream file(path_of(a.segment), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    EXPECT_EQ(bytes.find(std::string(16, '\x5a')), std::string::npos);
    EXPECT_TRUE(holds(b, std::byte{0x6b}));
    ASSERT_TRUE(segments_->give_back(b));
    EXPECT_FALSE(segments_->exists(a.segment)) << "nothing is in it, and nothing will be";
    EXPECT_TRUE(holds(c, std::byte{0x7c}));
    ASSERT_TRUE(segments_->give_back(c));
    EXPECT_TRUE(segments_->exists(c.segment)) << "the next one comes here";
    EXPECT_EQ(segments_->bytes(), step);
    EXPECT_TRUE(segments_->give_back({99, step, step})) << "of a segment that is gone";
}

/// It takes space until then.
TEST_F(SegmentsTest, WhatTheDiskDoesNotLetGoIsTriedAgain) {
    const auto refuse_holes = [this](int64_t from, int64_t count) {
        testing::DiskFaults::begin({.folder = folder_.path(),
                                    .kind = testing::DiskFaults::Kind::no_space,
                                    .from = from,
                                    .count = count,
                                    .only = "hole kv-"});
    };
    const RecordPlace a = record(1, 1), b = record(1, 2), c = record(1, 3);
    const uint64_t before = segments_->bytes();
    EXPECT_FALSE(segments_->has_uncleared());
    refuse_holes(1, 3);
    for (const RecordPlace& place : {a, b}) EXPECT_FALSE(segments_->give_back(place));
    EXPECT_TRUE(segments_->has_uncleared());
    EXPECT_FALSE(segments_->clear_again());
    EXPECT_EQ(testing::DiskFaults::end().size(), 3U) << "it ends with the first that fails";
    EXPECT_EQ(segments_->bytes(), before);
    refuse_holes(2, 1);
    EXPECT_FALSE(segments_->clear_again());
    testing::DiskFaults::end();
    EXPECT_TRUE(holds(b, std::byte{0})) << "the other one was the first this time";
    EXPECT_TRUE(holds(a, std::byte{1}));
    EXPECT_TRUE(segments_->has_uncleared());
    EXPECT_EQ(segments_->bytes(), before - step);
    EXPECT_TRUE(segments_->clear_again());
    EXPECT_FALSE(segments_->has_uncleared());
    EXPECT_TRUE(holds(a, std::byte{0}));
    EXPECT_TRUE(holds(c, std::byte{3}));
    EXPECT_EQ(segments_->bytes(), before - 2 * step);
}

TEST_F(SegmentsTest, WhatACrashHasLeftGoes) {
    const RecordPlace a = record(2, 1), orphan = record(2, 2), b = record(1, 3), last = record(1, 4),
                      other = record(7, 5);
    open();
    EXPECT_EQ(segments_->bytes(), (2 + 2 + 1 + 1 + 7 + 2) * step);
    ASSERT_TRUE(segments_->keep_only({b, a}));
    EXPECT_EQ(segments_->bytes(), 4 * step);
    EXPECT_LE(bytes_on_disk(), 5 * step) << "file systems keep lists of holes";
    EXPECT_TRUE(holds(a, std::byte{1}));
    EXPECT_TRUE(holds(b, std::byte{3}));
    EXPECT_FALSE(is_within(last)) << "the file ends before it";
    EXPECT_FALSE(segments_->exists(other.segment));
    EXPECT_TRUE(holds(orphan, std::byte{0}));
    open();
    EXPECT_TRUE(holds(a, std::byte{1}));
    ASSERT_TRUE(segments_->keep_only({}));
    EXPECT_EQ(segments_->count(), 0U);
    EXPECT_EQ(bytes_on_disk(), 0U);
}

TEST_F(SegmentsTest, APlaceElsewhereIsNotWithin) {
    const RecordPlace a = record(2, 1);
    for (const RecordPlace& place : std::initializer_list<RecordPlace>{{a.segment, 0, step},
                                                                       {a.segment, step, 3 * step},
                                                                       {a.segment, step, 0},
                                                                       {a.segment, step, ~uint64_t{0}},
                                                                       {a.segment, ~uint64_t{0} - 100, step},
                                                                       {a.segment, step + 1, step},
                                                                       {a.segment, step, step + 1},
                                                                       {a.segment + 1, step, step},
                                                                       {0, step, step}})
        EXPECT_FALSE(is_within(place)) << place.segment << ' ' << place.offset << ' ' << place.bytes;
}

TEST_F(SegmentsTest, FilesThatAreNoSegmentsAreLeftAlone) {
    record(1, 1);
    for (const char* name : {"/other", "/kv-1", "/kv-00000000000000ff.old", "/kv-zzzzzzzzzzzzzzzz"})
        std::ofstream(folder_.path() + name) << "text";
    open();
    EXPECT_EQ(segments_->count(), 1U);
    EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/kv-1"));
}

/// A crash before the header was written, or somebody else's bytes under that name.
TEST_F(SegmentsTest, ASegmentWithoutItsHeaderAndRecordsIsRemoved) {
    const RecordPlace a = record(2, 1);
    for (const size_t size : {0UL, 10UL, 4095UL}) {
        segments_.reset();
        std::filesystem::resize_file(path_of(a.segment), size);
        open();
        EXPECT_FALSE(segments_->exists(a.segment));
        EXPECT_FALSE(std::filesystem::exists(path_of(a.segment)));
        std::ofstream(path_of(a.segment)) << std::string(4096, 'x');
        chmod(path_of(a.segment).c_str(), 0600);
    }
    open();
    EXPECT_EQ(segments_->salt(a.segment).error().code, ErrorCode::corrupt);
    ASSERT_TRUE(segments_->keep_only({}));
    EXPECT_EQ(segments_->count(), 0U);
    EXPECT_GT(record(1, 1).segment, a.segment) << "a number is not used twice in one run";
}

TEST_F(SegmentsTest, ADamagedHeaderCostsNoRecord) {
    const RecordPlace a = record(2, 1);
    segments_.reset();
    testing::flip_bit(path_of(a.segment), 9);
    open();
    EXPECT_EQ(segments_->salt(a.segment).error().code, ErrorCode::corrupt);
    EXPECT_TRUE(is_within(a));
    ASSERT_TRUE(segments_->keep_only({a}));
    EXPECT_TRUE(holds(a, std::byte{1}));
}

TEST_F(SegmentsTest, FewFilesAreOpenHoweverManyThereAre) {
    segments_.reset();
    segments_ = Segments::open(folder_, *queue_, {.segment_bytes = 2 * step, .open_files_max = 4}).value();
    std::vector<RecordPlace> places;
    for (int i = 0; i < 60; ++i) places.push_back(record(1, i));
    EXPECT_EQ(segments_->count(), 60U);
    const auto all_hold = [&] {
        int value = 0;
        return std::ranges::all_of(places, [&](const auto& place) { return holds(place, std::byte(value++)); });
    };
    EXPECT_TRUE(all_hold());
    EXPECT_EQ(segments_->open_files(), 4U);
    EXPECT_TRUE(segments_->is_there()) << "the one that is written to stays open";
    for (int i = 0; i < 59; i += 2) ASSERT_TRUE(segments_->give_back(places[static_cast<size_t>(i)]));
    EXPECT_EQ(segments_->count(), 30U);
    segments_.reset();
    segments_ = Segments::open(folder_, *queue_, {.segment_bytes = 2 * step, .open_files_max = 4}).value();
    EXPECT_EQ(segments_->count(), 30U);
    EXPECT_EQ(segments_->open_files(), 4U);
    EXPECT_TRUE(holds(places[59], std::byte{59}));
}

TEST_F(SegmentsTest, ALinkInAFilesPlaceIsRefused) {
    const RecordPlace a = record(1, 1);
    segments_.reset();
    std::filesystem::rename(path_of(a.segment), around_.path() + "/elsewhere");
    std::filesystem::create_symlink(around_.path() + "/elsewhere", path_of(a.segment));
    EXPECT_FALSE(Segments::open(folder_, *queue_, {}));
}

}  // namespace
}  // namespace rondo
