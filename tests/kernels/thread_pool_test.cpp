#include "kernels/cpu/thread_pool.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>
#include <vector>

namespace {
thread_local std::atomic<int>* yields = nullptr;  ///< where this thread's are counted
}

/// In place of the C library's, for all of this program.
extern "C" int sched_yield() noexcept {
    if (yields != nullptr) yields->fetch_add(1);
    return static_cast<int>(::syscall(SYS_sched_yield));
}

namespace rondo::cpu {
namespace {

TEST(ThreadPool, DoesEveryTaskOnce) {
    ThreadPool pool(4);
    for (int tasks = 0; tasks < 300; ++tasks) {
        std::vector<std::atomic<int>> done(static_cast<size_t>(tasks));
        pool.run(tasks, [&](int64_t task, int thread) {
            EXPECT_GE(thread, 0);
            EXPECT_LT(thread, 4);
            done[static_cast<size_t>(task)].fetch_add(1);
        });
        for (const auto& count : done) EXPECT_EQ(count.load(), 1) << tasks << " tasks";
    }
}

TEST(ThreadPool, DoesEveryTaskOfEveryStretchOnce) {
    ThreadPool pool(4);
    for (int tasks = 0; tasks < 300; ++tasks) {
        std::vector<std::atomic<int>> done(static_cast<size_t>(tasks));
        pool.run_stretches(tasks, [&](int64_t task, int thread) {
            EXPECT_GE(thread, 0);
            EXPECT_LT(thread, 4);
            done[static_cast<size_t>(task)].fetch_add(1);
        });
        for (const auto& count : done) EXPECT_EQ(count.load(), 1) << tasks << " tasks";
    }
}

/// The thread that waits in task 0 cannot have done any of the others: they are done by whoever is free.
TEST(ThreadPool, StretchesOfABusyThreadAreDoneByTheOthers) {
    ThreadPool pool(2);
    constexpr int64_t tasks = 40;
    for (int round = 0; round < 100; ++round) {
        std::atomic<int64_t> others{0};
        pool.run_stretches(tasks, [&](int64_t task, int) {
            if (task != 0) {
                others.fetch_add(1);
                return;
            }
            while (others.load() < tasks - 1) std::this_thread::yield();
        });
        EXPECT_EQ(others.load(), tasks - 1);
    }
}

TEST(ThreadPool, TakesAStretchInOrder) {
    ThreadPool pool(1);
    std::vector<int64_t> seen;
    pool.run_stretches(5, [&](int64_t task, int) { seen.push_back(task); });
    EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

TEST(ThreadPool, ThrowsWhatATaskOfAStretchThrewAndGoesOn) {
    ThreadPool pool(3);
    for (int round = 0; round < 100; ++round) {
        const auto run = [&] {
            pool.run_stretches(40, [&](int64_t task, int) {
                if (task % 7 == 3) throw std::bad_alloc();
            });
        };
        EXPECT_THROW(run(), std::bad_alloc);
        std::atomic<int> after{0};
        pool.run_stretches(20, [&](int64_t, int) { after.fetch_add(1); });
        EXPECT_EQ(after.load(), 20);
    }
}

TEST(ThreadPool, ThrowsWhatATaskThrewAndGoesOn) {
    ThreadPool pool(3);
    for (int round = 0; round < 100; ++round) {
        std::atomic<int> done{0};
        const auto run = [&] {
            pool.run(40, [&](int64_t task, int) {
                if (task % 7 == 3) throw std::bad_alloc();
                done.fetch_add(1);
            });
        };
        EXPECT_THROW(run(), std::bad_alloc);
        EXPECT_EQ(done.load(), 34);
        std::atomic<int> after{0};
        pool.run(20, [&](int64_t, int) { after.fetch_add(1); });
        EXPECT_EQ(after.load(), 20);
    }
}

/// The worker's task ends when the caller, who has none left, offers its core: perhaps the worker needs that very one.
TEST(ThreadPool, ACallerThatWaitsOffersItsCoreToOthers) {
    using Clock = std::chrono::steady_clock;
    ThreadPool pool(2);
    std::atomic<int> offered{0};
    std::atomic<bool> worker_began{false};
    const Clock::time_point end = Clock::now() + std::chrono::seconds(20);
    yields = &offered;
    pool.run(2, [&](int64_t, int thread) {
        if (thread == 0) {
            while (!worker_began && Clock::now() < end) continue;  // else the caller would do both
            offered = 0;
        } else {
            worker_began = true;
            while (offered == 0 && Clock::now() < end) std::this_thread::yield();  // of this thread, not counted
        }
    });
    yields = nullptr;
    EXPECT_TRUE(worker_began);
    EXPECT_GT(offered, 0);
}

TEST(ThreadPool, OneThreadRunsOnTheCaller) {
    ThreadPool pool(1);
    const auto caller = std::this_thread::get_id();
    pool.run(5, [&](int64_t, int) { EXPECT_EQ(std::this_thread::get_id(), caller); });
}

}  // namespace
}  // namespace rondo::cpu
