#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "tests/memory/store/disk_faults.hpp"
#include "tests/memory/store/fault_amount.hpp"
#include "tests/memory/store/store_work.hpp"

/// A disk without space, or a user without space on it, from every call that needs some on, and for a while.
namespace rondo {
namespace {

using testing::DiskFaults;
using testing::fault_amount;
using testing::Ledger;
using Refusal = KvStore::Refusal;

class StoreNoSpaceTest : public testing::StoreWork {
protected:
    StoreNoSpaceTest() {
        queue_ = DiskQueue::open({4, DiskQueue::Way::threads}).value();
        open();
    }
    void hear(const char* what, int number, int version = 0) {
        ledger_.hear(std::string(what) + ' ' + std::to_string(number) + ' ' + std::to_string(version));
    }
    static void expect_one_line(const Status& end) {
        if (end) return;
        EXPECT_EQ(end.error().code, ErrorCode::out_of_memory) << end.error().message;
        EXPECT_EQ(std::ranges::count(end.error().message, '\n'), 0);
    }
    void try_to_write(int number) {
        const std::vector<int> before = present(number);
        const Round one = numbered(number);
        const RecordHeader header = header_of(one);
        KvStore::Begun begun = store_->begin(header, worth(one));
        if (begun.refusal != Refusal::none) lost_max_ += uint64_t{64} << 10;  // it may not know that some are gone
        for (const int other : before)
            if (!has(other)) hear("removed", other);
        Status end = begun.writing ? write_layers(begun.writing, header)
                                   : Status(make_error(ErrorCode::out_of_memory, "refused"));
        if (end) {
            hear("write", number);
            end = wait([&](auto done) { store_->finish(begun.writing, std::move(done)); });
            if (end) hear("written", number);
        }
        expect_one_line(end);
        begun.writing.reset();
        tasks_->run_all();
        EXPECT_EQ(has(number), end.is_ok()) << "it is there if that was said";
    }
    void try_to_remove(int number) {
        if (!has(number)) return;
        hear("remove", number);
        const Status end = store_->remove_if_nobodys(name_of(numbered(number)));
        expect_one_line(end);
        if (end) hear("removed", number);
        EXPECT_FALSE(has(number));
    }
    void try_to_keep(Shelf& shelf, int number, int version) {
        const std::string head = std::to_string(version), body = body_of(number, version);
        hear("keep", number, version);
        const Status end = shelf.put(shelf.name("t", id(number)), tenant(), std::as_bytes(std::span(head)),
                                     std::as_bytes(std::span(body)), {});
        expect_one_line(end);
        if (end) hear("kept", number, version);
    }
    void try_to_drop(Shelf& shelf, int number) {
        hear("drop", number);
        const Status end = shelf.remove(shelf.name("t", id(number)));
        expect_one_line(end);
        if (end) hear("dropped", number);
    }
    /// Some of everything, and what is there is read between.
    void try_to_work(uint64_t seed) {
        std::mt19937_64 random(seed);
        Shelf shelf(store_->manifest(), store_->keys());
        for (int step = 0; step < 6; ++step) {
            const std::vector<int> there = present(next_);
            try_to_write(next_++);
            if (!there.empty()) try_to_remove(there[random() % there.size()]);
            try_to_keep(shelf, step % 3, 100 * next_ + step);
            if (step == 4) try_to_drop(shelf, static_cast<int>(random() % 3));
            if (step == 3) expect_one_line(store_->forget_removed());
            for (const int one : present(next_))
                if (random() % 4 == 0) {
                    EXPECT_TRUE(check_bytes(one)) << one;
                }
        }
    }
    static DiskFaults::Kind some_kind(int64_t turn) {
        return turn % 4 < 2 ? DiskFaults::Kind::no_space : DiskFaults::Kind::quota;
    }
    uint64_t segments() const {
        return static_cast<uint64_t>(std::ranges::count_if(
            segment_files(), [](const auto& file) { return Segments::number_of(file.filename()) != 0; }));
    }
    bool check_bytes(int number) { return StoreTest::check(numbered(number)).is_ok(); }

    Ledger ledger_;
    int next_ = 0;
    uint64_t lost_max_ = 0;
};

TEST_F(StoreNoSpaceTest, NothingHalfIsSeenAndWritingGoesOn) {
    const int64_t stride = fault_amount(7, 1), lengths = fault_amount(1, 5);
    int64_t failed = 0;
    for (int64_t length = 0; length < lengths; ++length) {
        for (int64_t from = 1; !HasFailure(); from += stride) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(from));
            const int64_t counts[] = {1000, 3, 1, 20, 100};
            const int64_t count = counts[length];
            DiskFaults::begin(
                {options_.path, some_kind(from), from, count, from % 2 == 0, static_cast<uint64_t>(from)});
            try_to_work(static_cast<uint64_t>(from));
            const auto met = static_cast<int64_t>(DiskFaults::end().size());
            if (met < from) break;
            ++failed;
            try_to_write(next_++);
            EXPECT_TRUE(has(next_ - 1)) << "there is space again";
            EXPECT_EQ(store_->bytes(), store_->index().bytes() + segments() * disk_alignment) << "nothing leaks";
            if ((from + length) % 2 == 0) continue;
            open();
            check(ledger_, lost_max_);
            ledger_ = ledger_now(next_);
            lost_max_ = 0;
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
    const Status refused = store_->remove_if_nobodys(name_of(numbered(0)));
    EXPECT_EQ(store_->manifest().reserve_missing_bytes(), Manifest::reserve_bytes) << "it was given up for this";
    DiskFaults::end();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory) << refused.error().message;
    EXPECT_EQ(std::ranges::count(refused.error().message, '\n'), 0);
    EXPECT_TRUE(store_->remove_if_nobodys(name_of(numbered(1))));
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

TEST_F(StoreNoSpaceTest, AStartThatFailedIsMadeAgain) {
    for (int i = 0; i < 30; ++i) try_to_write(next_++);
    const int64_t stride = fault_amount(5, 1);
    int64_t failed = 0, begun = 0;
    for (int64_t from = 1; !HasFailure(); from += stride) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(from));
        try_to_write(next_++);
        close();
        DiskFaults::begin({options_.path, some_kind(from), from, 1000, from % 2 == 0});
        auto opened = KvStore::open(options_, *queue_);
        if (!opened) expect_one_line(opened.status());
        failed += !opened;
        if (opened) store_ = std::move(*opened);
        close();
        if (static_cast<int64_t>(DiskFaults::end().size()) < from) break;
        ++begun;
        open();
        check(ledger_, lost_max_);
    }
    std::cout << failed << " of " << begun << " starts without space failed\n";
    EXPECT_GE(begun, fault_amount(4, 20));
}

}  // namespace
}  // namespace rondo
