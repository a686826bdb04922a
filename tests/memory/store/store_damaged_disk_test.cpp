#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "tests/memory/store/fault_amount.hpp"
#include "tests/memory/store/store_trying.hpp"

/// A disk that answers writes, syncs and reads with an error, from every call on, and for a while.
namespace rondo {
namespace {

using testing::DiskFaults;
using testing::fault_amount;

class StoreDamagedDiskTest : public testing::StoreTrying {
protected:
    /// A manifest that cannot be opened again says that it has no room.
    bool may_be(ErrorCode code) const override { return code == ErrorCode::io || code == ErrorCode::out_of_memory; }
    /// The bytes are right, or they are refused. A record goes where the disk reads other bytes of the file.
    void try_to_read(int number) override {
        const Status read = StoreTest::check(numbered(number));
        const bool stays = has(number);
        if (!stays) hear("remove", number), ++unreadable_;
        const ErrorCode expected = stays ? ErrorCode::io : ErrorCode::corrupt;
        const std::string why = read ? "" : read.error().message;
        EXPECT_TRUE(read ? stays : read.error().code == expected) << number << ": " << why;
        refused_ += !read.is_ok();
    }
    /// Boundaries that fail: all from there on, what makes one read a damaged one, one error, and some.
    static int64_t count_of(int64_t turn) {
        constexpr int64_t counts[] = {1000, 2, 1, 20, 100};
        return counts[turn % 5];
    }

    int64_t refused_ = 0, unreadable_ = 0;
};

TEST_F(StoreDamagedDiskTest, NothingHalfIsSeenAndWritingGoesOn) {
    const int64_t stride = fault_amount(13, 1), lengths = fault_amount(1, 5);
    int64_t failed = 0;
    for (int64_t length = 0; length < lengths; ++length) {
        int64_t turn = 0;
        for (int64_t from = 1; !HasFailure(); from += stride, ++turn) {
            if (!work_with_fault(DiskFaults::Kind::io_error, from, count_of(length + turn), turn % 4 < 2)) break;
            ++failed;
        }
    }
    std::cout << "errors of the disk at " << failed << " boundaries: " << refused_ << " records were not read, "
              << unreadable_ << " of them went\n";
    EXPECT_GE(failed, fault_amount(6, 400));
    EXPECT_GT(refused_, 0);
}

TEST_F(StoreDamagedDiskTest, AStartThatFailedIsMadeAgain) {
    for (int i = 0; i < 30; ++i) try_to_write(next_++);
    const int64_t stride = fault_amount(9, 1), lengths = fault_amount(1, 5);
    int64_t failed = 0, begun = 0;
    for (int64_t length = 0; length < lengths; ++length) {
        int64_t turn = 0;
        for (int64_t from = 1; !HasFailure(); from += stride, ++turn) {
            const auto refused = start_with_fault(DiskFaults::Kind::io_error, from, count_of(length + turn));
            if (!refused) break;
            failed += *refused;
            ++begun;
        }
    }
    std::cout << failed << " of " << begun << " starts with errors of the disk failed\n";
    EXPECT_GE(begun, fault_amount(3, 20));
}

/// What a sync that failed was to make durable is not found, and what is written next is.
TEST_F(StoreDamagedDiskTest, WhatCouldNotBeSyncedIsNotFound) {
    try_to_write(next_++);
    ASSERT_TRUE(has(0));
    DiskFaults::begin({options_.path});
    try_to_write(next_++);
    const std::vector<std::string> met = DiskFaults::end();
    const auto sync = std::ranges::find(met, "fdatasync kv-");
    ASSERT_NE(sync, met.end());
    DiskFaults::begin({options_.path, DiskFaults::Kind::io_error, sync - met.begin() + 1});
    try_to_write(next_++);
    EXPECT_EQ(DiskFaults::end().at(static_cast<size_t>(sync - met.begin())), "fdatasync kv-");
    EXPECT_FALSE(has(2));
    try_to_write(next_++);
    EXPECT_TRUE(has(3));
    open();
    check(ledger_, lost_max_);
}

}  // namespace
}  // namespace rondo
