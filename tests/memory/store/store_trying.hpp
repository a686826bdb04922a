#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/memory/store/disk_faults.hpp"
#include "tests/memory/store/store_work.hpp"

namespace rondo::testing {

/// Work on a small store whose disk refuses some of it, for a while. A ledger hears of what was done, what was refused
/// and what may be either.
class StoreTrying : public StoreWork {
protected:
    StoreTrying() {
        queue_ = DiskQueue::open({4, DiskQueue::Way::threads}).value();
        open();
    }
    /// Whether the fault gives such an error to whoever changes something.
    virtual bool may_be(ErrorCode code) const = 0;
    /// Reads a record that is there.
    virtual void try_to_read(int number) = 0;

    void hear(const char* what, int number, int version = 0) {
        ledger_.hear(std::string(what) + ' ' + std::to_string(number) + ' ' + std::to_string(version));
    }
    void expect_one_line(const Status& end) const {
        if (end) return;
        EXPECT_TRUE(may_be(end.error().code)) << static_cast<int>(end.error().code) << ": " << end.error().message;
        EXPECT_EQ(std::ranges::count(end.error().message, '\n'), 0);
    }
    void try_to_write(int number) {
        const std::vector<int> before = present(number);
        const Round one = numbered(number);
        const RecordHeader header = header_of(one);
        KvStore::Begun begun = store_->begin(header, worth(one));
        // The ledger may not know that some are gone.
        if (begun.refusal != KvStore::Refusal::none) lost_max_ += uint64_t{64} << 10;
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
        const Status end = store_->remove(name_of(numbered(number)));
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
                if (random() % 4 == 0) try_to_read(one);
        }
    }
    bool check_bytes(int number) { return StoreTest::check(numbered(number)).is_ok(); }

    /// Works while `count` boundaries from that one on fail, and writes again behind them. `starts`: then the store is
    /// opened once more and must hold what the ledger says. False: there are fewer boundaries.
    bool work_with_fault(DiskFaults::Kind kind, int64_t from, int64_t count, bool starts) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(from));
        DiskFaults::begin({options_.path, kind, from, count, from % 2 == 0, static_cast<uint64_t>(from)});
        try_to_work(static_cast<uint64_t>(from));
        if (static_cast<int64_t>(DiskFaults::end().size()) < from) return false;
        try_to_write(next_++);
        EXPECT_TRUE(has(next_ - 1)) << "the disk takes something again";
        const auto leaks = [this] { return store_->bytes() != store_->index().bytes() + segments() * disk_alignment; };
        // A thread of the disk's may be letting go of a record that was read.
        for (int i = 0; i < 5000 && leaks(); ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            tasks_->run_all();
        }
        EXPECT_FALSE(leaks());
        if (starts) start_and_check();
        return true;
    }
    /// A start while `count` boundaries from that one on fail, and one without a fault behind it. Whether the first was
    /// refused; none: there are fewer boundaries.
    std::optional<bool> start_with_fault(DiskFaults::Kind kind, int64_t from, int64_t count) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(from));
        try_to_write(next_++);
        close();
        DiskFaults::begin({options_.path, kind, from, count, from % 2 == 0});
        auto opened = KvStore::open(options_, *queue_);
        const bool refused = !opened;
        if (refused) expect_one_line(opened.status());
        if (opened) store_ = std::move(*opened);
        close();
        const bool met = static_cast<int64_t>(DiskFaults::end().size()) >= from;
        start_and_check();
        if (!met) return std::nullopt;
        return refused;
    }

    Ledger ledger_;
    int next_ = 0;
    uint64_t lost_max_ = 0;

private:
    void start_and_check() {
        open();
        check(ledger_, lost_max_);
        ledger_ = ledger_now(next_);
        lost_max_ = 0;
    }
    uint64_t segments() const { return segment_files().size(); }
};

}  // namespace rondo::testing
