#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "tests/memory/store/disk_faults.hpp"
#include "tests/memory/store/fault_amount.hpp"
#include "tests/memory/store/store_trying.hpp"

/// A disk without space, or a user without space on it, from every call that needs some on, and for a while.
namespace rondo {
namespace {

using testing::DiskFaults;
using testing::fault_amount;

class StoreNoSpaceTest : public testing::StoreTrying {
protected:
    bool may_be(ErrorCode code) const override { return code == ErrorCode::out_of_memory; }
    void try_to_read(int number) override { EXPECT_TRUE(check_bytes(number)) << number; }
    static DiskFaults::Kind some_kind(int64_t turn) {
        return turn % 4 < 2 ? DiskFaults::Kind::no_space : DiskFaults::Kind::quota;
    }
};

TEST_F(StoreNoSpaceTest, NothingHalfIsSeenAndWritingGoesOn) {
    const int64_t stride = fault_amount(7, 1), lengths = fault_amount(1, 5);
    int64_t failed = 0;
    for (int64_t length = 0; length < lengths; ++length) {
        for (int64_t from = 1; !HasFailure(); from += stride) {
            const int64_t counts[] = {1000, 3, 1, 20, 100};
            if (!work_with_fault(some_kind(from), from, counts[length], (from + length) % 2 != 0)) break;
            ++failed;
        }
    }
    std::cout << "no space at " << failed << " boundaries\n";
    EXPECT_GE(failed, fault_amount(10, 400));
}

/// RocksDB calls it an error of the disk.
TEST_F(StoreNoSpaceTest, AUsedUpQuotaIsAFullDisk) {
    for (int i = 0; i < 5; ++i) try_to_write(next_++);
    ASSERT_TRUE(has(0));
    ASSERT_EQ(store_->manifest().reserve_missing_bytes(), 0U);
    DiskFaults::begin({options_.path, DiskFaults::Kind::quota, 1, 1'000'000});
    const Status refused = store_->remove(name_of(numbered(0)));
    EXPECT_EQ(store_->manifest().reserve_missing_bytes(), Manifest::reserve_bytes) << "it was given up for this";
    DiskFaults::end();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory) << refused.error().message;
    EXPECT_EQ(std::ranges::count(refused.error().message, '\n'), 0);
    EXPECT_TRUE(store_->remove(name_of(numbered(1))));
    EXPECT_EQ(store_->manifest().reserve_missing_bytes(), 0U);
    open();
    EXPECT_FALSE(has(0));
    EXPECT_FALSE(has(1));
    EXPECT_TRUE(check_bytes(2));
}

/// What has no name that is synced may be gone after a stop of the machine, with all records in it.
TEST_F(StoreNoSpaceTest, ASegmentWithoutASyncedNameIsNotUsed) {
    const testing::Folder place(testing::in_memory());
    const auto folder = StoreFolder::open(place.path());
    const auto segments = Segments::open(*folder, *queue_, {}).value();
    DiskFaults::begin({place.path(), DiskFaults::Kind::no_space, 3});  // behind the file and its header
    EXPECT_EQ(segments->append(disk_alignment).error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(DiskFaults::end().at(2).substr(0, 5), "fsync");
    EXPECT_EQ(segments->count(), 0U);
    EXPECT_EQ(segments->bytes(), 0U);
    EXPECT_TRUE(folder->names()->empty());
    EXPECT_TRUE(segments->append(disk_alignment));
}

/// The same of the manifest: conversations may be written to it before there is any segment.
TEST_F(StoreNoSpaceTest, AManifestWithoutASyncedNameIsNotUsed) {
    close();
    std::filesystem::remove_all(options_.path);
    DiskFaults::begin({.folder = options_.path, .kind = DiskFaults::Kind::no_space, .from = 1, .only = "fsync kv"});
    const auto refused = KvStore::open(options_, *queue_);
    EXPECT_EQ(DiskFaults::end(), std::vector<std::string>{"fsync kv"});
    EXPECT_TRUE(std::filesystem::exists(options_.path + "/manifest/CURRENT")) << "it is synced behind this";
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
    open();
    try_to_write(next_++);
    EXPECT_TRUE(has(0));
}

TEST_F(StoreNoSpaceTest, AStartThatFailedIsMadeAgain) {
    for (int i = 0; i < 30; ++i) try_to_write(next_++);
    const int64_t stride = fault_amount(5, 1);
    int64_t failed = 0, begun = 0;
    for (int64_t from = 1; !HasFailure(); from += stride) {
        const auto refused = start_with_fault(some_kind(from), from, 1000);
        if (!refused) break;
        failed += *refused;
        ++begun;
    }
    std::cout << failed << " of " << begun << " starts without space failed\n";
    EXPECT_GE(begun, fault_amount(4, 20));
}

}  // namespace
}  // namespace rondo
