#include "actors/text_queue.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <list>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace rondo {
namespace {

using Taken = TextQueue::Taken;

TEST(TextQueue, LetsSoManyBeginAndSoManyWait) {
    TextQueue queue(2, 1, false);
    std::vector<int> done;
    const auto add = [&](int i) { return queue.add("t", 10, [&done, i] { done.push_back(i); }); };
    EXPECT_EQ(add(0), Taken::begins);
    EXPECT_EQ(add(1), Taken::begins);
    EXPECT_EQ(add(2), Taken::waits);
    EXPECT_EQ(add(3), Taken::refused);
    queue.work();
    EXPECT_EQ(done, (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(add(4), Taken::begins) << "the other one who works has not come yet";
    EXPECT_EQ(add(5), Taken::waits);
    queue.work();
    queue.work();
    EXPECT_EQ(done, (std::vector<int>{0, 1, 2, 4, 5}));
    for (int i = 6; i < 8; ++i) EXPECT_EQ(add(i), Taken::begins) << "both places were given back";
}

TEST(TextQueue, ATenantWithManyTextsWaitsBehindItself) {
    TextQueue queue(1, 19, true);
    std::string done;
    for (int i = 0; i < 40; ++i) queue.add("many", 100, [&] { done += 'm'; });
    EXPECT_EQ(queue.add("one", 100, [&] { done += 'o'; }), Taken::waits) << "there is room for who comes late";
    queue.work();
    EXPECT_EQ(done, "mo" + std::string(done.size() - 2, 'm'));
    EXPECT_EQ(done.size(), 17U);  // of twenty places four fifths, and the other's
}

TEST(TextQueue, AJobThatThrowsCostsNoPlace) {
    TextQueue queue(1, 8, false);
    int done = 0;
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(queue.add("t", 10, [] { throw std::runtime_error("no memory"); }), Taken::begins);
        EXPECT_EQ(queue.add("t", 10, [&] { ++done; }), Taken::waits);
        queue.work();
    }
    EXPECT_EQ(done, 3);
}

TEST(TextQueue, DoesAllOfThemButNeverMoreAtOnce) {
    TextQueue queue(2, 1000, false);
    std::atomic<int> now{0}, most{0}, done{0};
    std::vector<std::thread> working;
    for (int i = 0; i < 200; ++i) {
        const Taken taken = queue.add("t", 10, [&] {
            const int running = ++now;
            for (int seen = most; seen < running && !most.compare_exchange_weak(seen, running);) {
            }
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            --now;
            ++done;
        });
        ASSERT_NE(taken, Taken::refused);
        if (taken == Taken::begins) working.emplace_back([&] { queue.work(); });
    }
    for (std::thread& one : working) one.join();
    EXPECT_EQ(done, 200);
    EXPECT_LE(most, 2);
}

TEST(TextQueue, HoldsSoManyBytes) {
    TextQueue queue(1, 1000, false, 100);
    int done = 0;
    const auto add = [&](size_t bytes) { return queue.add("t", bytes, [&] { ++done; }); };
    EXPECT_EQ(add(60), Taken::begins);
    EXPECT_EQ(add(50), Taken::refused);
    EXPECT_EQ(add(40), Taken::waits);
    EXPECT_EQ(add(1), Taken::refused);
    queue.work();
    EXPECT_EQ(done, 2);
    EXPECT_EQ(add(100), Taken::begins);
}

TEST(TextQueue, AtItsEndDropsWhatWaitsAndWaitsForTheRest) {
    TextQueue queue(1, 100, true);
    std::promise<void> begun, go_on;
    std::atomic<bool> finished{false};
    EXPECT_EQ(queue.add("t", 10,
                        [&] {
                            begun.set_value();
                            go_on.get_future().wait();
                            finished = true;
                        }),
              Taken::begins);
    std::thread working([&] { queue.work(); });
    begun.get_future().wait();
    const auto held = std::make_shared<int>(0);
    bool done = false;
    for (const char* tenant : {"t", "u", "u"})
        EXPECT_EQ(queue.add(tenant, 10, [held, &done] { done = true; }), Taken::waits);
    EXPECT_EQ(held.use_count(), 4);
    std::thread ending([&] {
        queue.end();
        EXPECT_TRUE(finished);
    });
    while (held.use_count() > 1) std::this_thread::yield();
    EXPECT_EQ(queue.add("t", 10, [] {}), Taken::refused);
    go_on.set_value();
    ending.join();
    working.join();
    EXPECT_FALSE(done);
}

/// In MiB.
double resident() {
    std::ifstream statm("/proc/self/statm");
    double size = 0, pages = 0;
    statm >> size >> pages;
    return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

TEST(TextQueue, GivesMemoryOfLargeJobsBack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizers' allocators keep what is freed for a while";
#endif
    TextQueue queue(1, 1, false);
    std::string kept;
    double most = 0;
    const auto work = [&] {
        EXPECT_EQ(queue.add("t", 64 << 20,
                            [&] {
                                std::list<std::string> pieces;
                                for (int i = 0; i < 64 << 10; ++i) pieces.emplace_back(1000, 'x');
                                kept = std::move(pieces.back());  // the end of the heap stays in use
                                most = resident();
                            }),
                  Taken::begins);
        std::thread([&] { queue.work(); }).join();
    };
    work();  // what other tests left free in the thread's arena is used up
    const double before = resident();
    work();
    EXPECT_GT(most, before + 60);
    EXPECT_LT(resident(), before + 16);
}

}  // namespace
}  // namespace rondo
