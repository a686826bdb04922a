#include "kernels/cpu/thread_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <vector>

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

TEST(ThreadPool, OneThreadRunsOnTheCaller) {
    ThreadPool pool(1);
    const auto caller = std::this_thread::get_id();
    pool.run(5, [&](int64_t, int) { EXPECT_EQ(std::this_thread::get_id(), caller); });
}

}  // namespace
}  // namespace rondo::cpu
