#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>

#include "tests/memory/store/disk_faults.hpp"
#include "tests/memory/store/fault_amount.hpp"
#include "tests/memory/store/store_work.hpp"

/// Processes that work on a store are killed at every call that changes the disk; what they said they had done is
/// there.
namespace rondo {
namespace {

using testing::ChildProcess;
using testing::DiskFaults;
using testing::fault_amount;
using testing::Ledger;

constexpr int steps_of_child = 12;

class StoreKillTest : public testing::StoreWork {
protected:
    struct Task {
        std::string path;
        DiskQueue::Way way = DiskQueue::Way::threads;
        DiskFaults::Kind kind = DiskFaults::Kind::none;
        int64_t at = 0;
        bool in_middle = false;
        uint64_t seed = 0;
        int first = 0;
        bool keys = false;

        std::string text() const {
            std::ostringstream out;
            out << path << ' ' << static_cast<int>(way) << ' ' << static_cast<int>(kind) << ' ' << at << ' '
                << in_middle << ' ' << seed << ' ' << first << ' ' << keys;
            return out.str();
        }
        static Task read(const char* text) {
            Task task;
            int way = 0, kind = 0;
            std::istringstream in(text);
            in >> task.path >> way >> kind >> task.at >> task.in_middle >> task.seed >> task.first >> task.keys;
            task.way = static_cast<DiskQueue::Way>(way);
            task.kind = static_cast<DiskFaults::Kind>(kind);
            return task;
        }
    };
    void use(const Task& task) {
        options_.path = task.path;
        if (task.keys) options_.keys.emplace(testing::some_root());
        queue_ = DiskQueue::open({8, task.way}).value();
    }
    /// A fresh folder's store, and what is known of it.
    void begin(bool keys) {
        close();
        if (keys) options_.keys.emplace(testing::some_root());
        if (!keys) options_.keys.reset();
        std::filesystem::remove_all(options_.path);
        ledger_ = {};
        first_ = 0;
    }
    /// Whether it was killed; what it said is heard.
    bool run(const Task& task, int killed_after_us = -1) {
        ChildProcess child("StoreKillTest.DISABLED_Child", task.text(), folder_.path());
        if (killed_after_us >= 0) {
            usleep(static_cast<useconds_t>(killed_after_us));
            child.kill_it();
        }
        const std::string output = child.output();
        const int status = child.wait();
        std::istringstream lines(output);
        for (std::string line; std::getline(lines, line);)
            if (line.starts_with('@')) ledger_.hear(line.substr(1));
        const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        EXPECT_TRUE(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << output;
        return killed;
    }
    /// Opens what a child has left, and goes on working in it.
    void check_and_go_on(const Task& task) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, task.text());
        open();
        ASSERT_TRUE(store_);
        first_ += steps_of_child;
        check(ledger_);
        const auto refusal = write(numbered(first_), worth(numbered(first_)));
        EXPECT_EQ(refusal, KvStore::Refusal::none);
        EXPECT_TRUE(is_there(numbered(first_)));
        ledger_ = ledger_now(++first_);
        close();
    }

    Ledger ledger_;
    int first_ = 0;
};

/// Says all that it does.
TEST_F(StoreKillTest, DISABLED_Child) {
    if (ChildProcess::task() == nullptr) GTEST_SKIP() << "a child of other tests";
    const Task task = Task::read(ChildProcess::task());
    use(task);
    DiskFaults::begin({task.path, task.kind, task.at, 1, task.in_middle, task.seed + static_cast<uint64_t>(task.at)});
    open();
    ASSERT_TRUE(store_);
    work(task.seed, task.first, steps_of_child);
    close();
    DiskFaults::end();
}

class StoreKilledAtBoundaries : public StoreKillTest, public ::testing::WithParamInterface<DiskFaults::Kind> {};

INSTANTIATE_TEST_SUITE_P(Disk, StoreKilledAtBoundaries,
                         ::testing::Values(DiskFaults::Kind::kill, DiskFaults::Kind::kill_and_forget),
                         [](const auto& of) { return of.param == DiskFaults::Kind::kill ? "keeps" : "forgets"; });

TEST_P(StoreKilledAtBoundaries, WhatWasToldIsThere) {
    const int64_t sweeps = fault_amount(1, 24), stride = fault_amount(9, 1);
    std::map<int64_t, int64_t> kills;  // by boundary
    for (int64_t sweep = 0; sweep < sweeps && !HasFailure(); ++sweep) {
        begin((sweep / 2 + (GetParam() == DiskFaults::Kind::kill_and_forget ? 1 : 0)) % 2 == 1);
        for (int64_t at = 1; !HasFailure(); at += stride) {
            const Task task{options_.path,         DiskQueue::Way::threads,      GetParam(), at,
                            (sweep + at) % 2 == 0, static_cast<uint64_t>(sweep), first_,     options_.keys.has_value()};
            if (!run(task)) break;  // it has fewer boundaries
            ++kills[at];
            check_and_go_on(task);
        }
    }
    int64_t all = 0, often = 0;
    for (const auto& [at, count] : kills) {
        all += count;
        often += count >= fault_amount(1, 20);
    }
    std::cout << all << " kills, at each of " << often << " boundaries at least " << fault_amount(1, 20) << '\n';
    EXPECT_GE(all, fault_amount(10, 1000));
    EXPECT_GE(often, fault_amount(10, 100));
}

TEST_F(StoreKillTest, AtAnyMomentWithIoUring) {
    if (!DiskQueue::open({8, DiskQueue::Way::io_uring})) GTEST_SKIP() << "the kernel has no io_uring for us";
    std::mt19937 random(5);
    int64_t kills = 0, whole_us = 0;
    const int64_t runs = fault_amount(8, 300);
    for (int64_t i = 0; i < runs && !HasFailure(); ++i) {
        const bool begins = i % 50 == 0;  // the first is not killed: how long it takes
        if (begins) begin(i % 100 == 50);
        const Task task{
            options_.path, DiskQueue::Way::io_uring, DiskFaults::Kind::none, 0, false, static_cast<uint64_t>(i),
            first_,        options_.keys.has_value()};
        const auto began = std::chrono::steady_clock::now();
        const bool killed = run(task, begins ? -1 : static_cast<int>(random() % static_cast<uint64_t>(whole_us)));
        const int64_t took_us = (std::chrono::steady_clock::now() - began) / std::chrono::microseconds(1);
        if (begins) whole_us = took_us;
        if (!killed) whole_us = std::min(whole_us, took_us);  // the first one's time may have been a long one
        kills += killed;
        check_and_go_on(task);
    }
    std::cout << kills << " kills at random moments of " << runs << '\n';
    EXPECT_GE(kills, runs / 4);
}

/// The boundaries that a child of those tests meets.
TEST_F(StoreKillTest, BoundariesAreThoseOfRecordsAndOfTheManifest) {
    const Task task{options_.path, DiskQueue::Way::threads, DiskFaults::Kind::none, 0, false, 0, 0, false};
    use(task);
    DiskFaults::begin({task.path});
    open();
    for (uint64_t seed = 0; seed < 4; ++seed) work(seed, static_cast<int>(seed) * steps_of_child, steps_of_child);
    close();
    std::map<std::string, int> met;
    for (const std::string& one : DiskFaults::end()) ++met[one];
    for (const char* one : {"pwrite kv-", "openat kv-", "fdatasync kv-", "hole kv-", "unlinkat kv-", "open .log",
                            "write .log", "fdatasync .log", "open .sst", "write .sst", "rename CURRENT", "unlink .log"})
        EXPECT_GT(met[one], 0) << one;
    if (HasFailure())
        for (const auto& [one, count] : met) std::cout << one << ' ' << count << '\n';
}

}  // namespace
}  // namespace rondo
