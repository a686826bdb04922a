// Records that a disk cannot read.

#include <gtest/gtest.h>

#include "tests/memory/store/bad_sectors.hpp"
#include "tests/memory/store/disk_faults.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

namespace rondo {
namespace {

using Refusal = KvStore::Refusal;

class KvStoreUnreadableTest : public testing::StoreTest, public ::testing::WithParamInterface<bool> {
protected:
    KvStoreUnreadableTest() {
        auto sectors = std::make_unique<testing::BadSectors>(std::move(queue_));
        sectors_ = sectors.get();
        queue_ = std::move(sectors);
        if (GetParam()) options_.keys.emplace(testing::some_root());
        open();
    }
    ~KvStoreUnreadableTest() override { testing::DiskFaults::end(); }
    /// As a start where the disk reads no segment's header.
    void open_without_headers() {
        close();
        refuse_headers(EIO);
        open();
    }
    /// From now on, for this reason.
    void refuse_headers(int error) const {
        testing::DiskFaults::Plan plan{options_.path, testing::DiskFaults::Kind::io_error, 1, 1'000'000};
        plan.only = "pread kv-";
        plan.error = error;
        testing::DiskFaults::begin(plan);
    }
    bool has(const Round& round) const { return store_->index().find(name_of(round)) != nullptr; }
    RecordPlace place_of(const Round& round) const { return store_->index().find(name_of(round))->place; }
    /// The byte `at` of a place cannot be read, and all others can.
    void spoil(const RecordPlace& place, uint64_t at) {
        sectors_->bad = [spoilt = Segments::name_of(place.segment), byte = place.offset + at](
                            const std::string& file, uint64_t begin, uint64_t end) {
            return file == spoilt && begin <= byte && byte < end;
        };
    }

    const Round one_ = round("t", nullptr, 100, 64), other_ = round("t", nullptr, 5000, 64);
    testing::BadSectors* sectors_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Bytes, KvStoreUnreadableTest, ::testing::Bool(),
                         [](const auto& of) { return of.param ? "sealed" : "plain"; });

/// With an unreadable record in the index all that stands behind it would be computed at each restore.
TEST_P(KvStoreUnreadableTest, ItIsWrittenElsewhere) {
    ASSERT_EQ(write(one_), Refusal::none);
    ASSERT_EQ(write(other_), Refusal::none);
    int64_t damaged = 0;
    for (const bool in_header : {true, false}) {
        const RecordPlace before = place_of(one_);
        spoil(before, in_header ? 0 : before.bytes - disk_alignment);
        const Status read = check(one_);
        ASSERT_FALSE(read);
        EXPECT_EQ(read.error().code, ErrorCode::corrupt) << read.error().message;
        EXPECT_FALSE(has(one_));
        EXPECT_EQ(store_->counts().damaged, ++damaged);
        EXPECT_TRUE(check(other_)) << "of the same file";
        ASSERT_EQ(write(one_), Refusal::none);
        EXPECT_NE(place_of(one_), before);
        EXPECT_TRUE(check(one_));
    }
    open();
    EXPECT_TRUE(check(one_));
    EXPECT_TRUE(check(other_));
}

/// A cable may be put in again.
TEST_P(KvStoreUnreadableTest, ADiskThatReadsNothingLosesNothing) {
    ASSERT_EQ(write(one_), Refusal::none);
    sectors_->bad = [](const auto&, auto, auto) { return true; };
    for (int i = 0; i < 3; ++i) {
        const Status read = check(one_);
        ASSERT_FALSE(read);
        EXPECT_EQ(read.error().code, ErrorCode::io) << read.error().message;
        EXPECT_TRUE(has(one_));
    }
    EXPECT_EQ(store_->counts().damaged, 0);
    sectors_->bad = [](const auto&, auto, auto) { return false; };
    EXPECT_TRUE(check(one_));
}

/// What seals the records of a segment comes from its header.
TEST_P(KvStoreUnreadableTest, ASegmentWhoseHeaderIsNotReadAtAStartLosesNothing) {
    for (const Round& each : {one_, other_}) ASSERT_EQ(write(each), Refusal::none);
    open_without_headers();
    ASSERT_TRUE(has(one_));
    EXPECT_EQ(store_->counts().damaged, 0);
    sectors_->bad = [](const auto&, auto, auto) { return true; };
    EXPECT_EQ(check(one_).error().code, ErrorCode::io);
    EXPECT_TRUE(has(one_));
    EXPECT_FALSE(testing::DiskFaults::end().empty());
    sectors_->bad = [](const auto&, auto, auto) { return false; };
    EXPECT_TRUE(check(one_)) << "once the disk reads";
    open_without_headers();
    testing::DiskFaults::end();
    open();
    for (const Round& each : {one_, other_}) EXPECT_TRUE(check(each)) << "after a start";
}

/// A header that stays unreadable costs what it has sealed, as a bad sector does, where somebody wants it.
TEST_P(KvStoreUnreadableTest, WhatAnUnreadableHeaderHasSealedIsWrittenElsewhere) {
    for (const Round& each : {one_, other_}) ASSERT_EQ(write(each), Refusal::none);
    open_without_headers();
    const Status read = check(one_);
    EXPECT_EQ(read.is_ok(), !GetParam());
    EXPECT_EQ(has(one_), !GetParam());
    EXPECT_TRUE(has(other_));
    if (read) return;
    EXPECT_EQ(read.error().code, ErrorCode::corrupt);
    EXPECT_EQ(store_->counts().damaged, 1);
    ASSERT_EQ(write(one_), Refusal::none);
    EXPECT_TRUE(check(one_));
}

/// For a read of many parts the kernel may have no memory, and read the first bytes of the file nevertheless.
TEST_P(KvStoreUnreadableTest, AKernelWithoutMemoryIsNotDamage) {
    ASSERT_EQ(write(one_), Refusal::none);
    sectors_->error = ENOMEM;
    const RecordPlace place = place_of(one_);
    for (const bool in_header : {true, false}) {
        spoil(place, in_header ? 0 : place.bytes - disk_alignment);
        const Status read = check(one_);
        ASSERT_FALSE(read);
        EXPECT_EQ(read.error().code, ErrorCode::out_of_memory) << read.error().message;
        ASSERT_TRUE(has(one_));
    }
    EXPECT_EQ(store_->counts().damaged, 0);
    sectors_->bad = [](const auto&, auto, auto) { return false; };
    EXPECT_TRUE(check(one_));
}

/// Nor is it where a segment's header is wanted before the record is read, or behind that.
TEST_P(KvStoreUnreadableTest, AHeaderThatTheKernelHasNoMemoryForIsNotDamage) {
    ASSERT_EQ(write(one_), Refusal::none);
    open_without_headers();
    for (const int first : {ENOMEM, EIO}) {
        refuse_headers(first);
        std::optional<Result<KvStore::ReadingPtr>> end;
        store_->read(name_of(one_), one_.ids, [&end](auto result) { end.emplace(std::move(result)); });
        refuse_headers(ENOMEM);
        tasks_->run_until([&end] { return end.has_value(); });
        EXPECT_EQ(end->is_ok(), !GetParam());
        end.reset();
        tasks_->run_all();
        ASSERT_TRUE(has(one_));
    }
    EXPECT_EQ(store_->counts().damaged, 0);
    testing::DiskFaults::end();
    EXPECT_TRUE(check(one_)) << "once the kernel has memory";
}

TEST_P(KvStoreUnreadableTest, AnErrorThatPassesIsNotSeen) {
    ASSERT_EQ(write(one_), Refusal::none);
    sectors_->bad = [fails = false](const auto&, auto, auto) mutable { return fails = !fails; };
    EXPECT_TRUE(check(one_));
    EXPECT_EQ(sectors_->refused, 1 + 3) << "the header and each layer were refused once";
    EXPECT_TRUE(has(one_));
    EXPECT_EQ(store_->counts().damaged, 0);
}

/// A process may have too many files open: that says nothing of a record.
TEST_P(KvStoreUnreadableTest, AFileThatCannotBeOpenedIsNotDamage) {
    ASSERT_EQ(write(one_), Refusal::none);
    const RecordPlace place = place_of(one_);
    options_.segments.open_files_max = 1;
    open();
    const std::filesystem::path file = options_.path + '/' + Segments::name_of(place.segment);
    ASSERT_EQ(write(other_), Refusal::none);  // into another file, which is the open one
    std::filesystem::rename(file, file.string() + "-away");
    const Status read = check(one_);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::io) << read.error().message;
    EXPECT_TRUE(has(one_));
    std::filesystem::rename(file.string() + "-away", file);
    EXPECT_TRUE(check(one_));
}

/// Somebody has copied the folder with links, or has tidied up.
TEST_P(KvStoreUnreadableTest, AFileThatIsNotToBeOpenedRefusesNothing) {
    options_.segments.open_files_max = 1;
    const Round stays = round("t", nullptr, 7000, 64);
    for (const bool is_removed : {false, true}) {
        ASSERT_EQ(write(one_), Refusal::none);
        ASSERT_EQ(write(stays), Refusal::none);  // so that the file does not go with the first
        const std::filesystem::path file = options_.path + '/' + Segments::name_of(place_of(one_).segment);
        open();
        ASSERT_EQ(write(other_), Refusal::none);  // into another file, which is the open one
        if (is_removed)
            std::filesystem::remove(file);
        else
            std::filesystem::create_hard_link(file, folder_.path() + "/copy");
        EXPECT_EQ(store_->remove(name_of(one_)).is_ok(), is_removed) << "its bytes are there, and are said to be";
        EXPECT_EQ(store_->forget_removed().is_ok(), is_removed);
        EXPECT_EQ(store_->forget_removed().is_ok(), is_removed) << "each time it is asked";
        for (int i = 0; i < 3; ++i) EXPECT_EQ(write(round("t", nullptr, 10'000 + 100 * i, 64)), Refusal::none) << i;
        std::filesystem::remove(folder_.path() + "/copy");
        EXPECT_TRUE(store_->forget_removed());
        EXPECT_EQ(write(one_), Refusal::none);
        EXPECT_TRUE(check(one_));
        for (int i = 0; i < 3; ++i) ASSERT_TRUE(store_->remove(name_of(round("t", nullptr, 10'000 + 100 * i, 64))));
        for (const Round& each : {one_, other_, stays}) ASSERT_TRUE(store_->remove(name_of(each)));
    }
}

/// Linux tells of a write that failed once; the next sync of the same file succeeds.
TEST_P(KvStoreUnreadableTest, ASyncThatFailedFailedForAllInTheFile) {
    const Round behind = round("t", nullptr, 9000, 64);
    const auto begin = [this](const Round& of) {
        auto begun = store_->begin(header_of(of), 1.0);
        EXPECT_TRUE(write_layers(begun.writing, header_of(of)));
        return begun.writing;
    };
    KvStore::WritingPtr first = begin(one_), second = begin(other_);
    sectors_->syncs_left = 0;
    EXPECT_FALSE(wait([&](auto done) { store_->finish({std::exchange(first, nullptr)}, std::move(done)); }));
    EXPECT_FALSE(wait([&](auto done) { store_->finish({std::exchange(second, nullptr)}, std::move(done)); }));
    EXPECT_EQ(sectors_->refused, 1);
    EXPECT_FALSE(has(one_));
    EXPECT_FALSE(has(other_));
    for (const Round& each : {one_, other_, behind}) {
        EXPECT_EQ(write(each), Refusal::none);
        EXPECT_TRUE(check(each));
    }
}

}  // namespace
}  // namespace rondo
