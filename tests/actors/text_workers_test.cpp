#include "actors/text_workers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace rondo {
namespace {

constexpr size_t large = size_t{64} << 10;
constexpr auto patience = std::chrono::seconds(20);

TextQueue::Text text(size_t bytes, TextQueue::Job job, const std::string& tenant = "t") {
    return {tenant, tenant + "\nc", 0, bytes, std::move(job)};
}

/// Holds the threads for long texts until it is let go.
struct Held {
    explicit Held(TextWorkers& workers, int count = 2) {
        const std::shared_future<void> until = go.get_future().share();
        for (int i = 0; i < count; ++i) {
            const auto job = [this, until] {
                ++begun;
                until.wait();
            };
            EXPECT_TRUE(workers.add(text(large, job)).is_ok());
        }
        while (begun < count) std::this_thread::yield();
    }
    std::promise<void> go;
    std::atomic<int> begun{0};
};

TEST(TextWorkers, AShortTextWaitsForNoLongOne) {
    TextWorkers workers({});
    Held held(workers);
    std::promise<void> done;
    EXPECT_TRUE(workers.add(text(100, [&] { done.set_value(); })).is_ok());
    EXPECT_EQ(done.get_future().wait_for(patience), std::future_status::ready);
    held.go.set_value();
    workers.end();
}

TEST(TextWorkers, RefuseWhatIsTooManyOrTooLongAndSayWhenToAskAgain) {
    TextWorkers::Options options;
    options.texts_max = 4;
    options.bytes_max = 4 * large;
    TextWorkers workers(options);
    Held held(workers);
    const auto expect_refused = [&](size_t bytes) {
        const auto refused = workers.add(text(bytes, [] { ADD_FAILURE() << "it was refused"; }));
        ASSERT_FALSE(refused.is_ok());
        EXPECT_EQ(refused.error().code, ErrorCode::overloaded);
        EXPECT_GE(refused.error().retry_after_s, 1.0);
        EXPECT_LE(refused.error().retry_after_s, 60.0);
    };
    expect_refused(3 * large);
    std::atomic<int> done{0};
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(workers.add(text(large, [&] { ++done; })).is_ok());
    expect_refused(large);
    held.go.set_value();
    while (done < 2) std::this_thread::yield();
    // One that is larger than all the room there is comes in alone.
    std::promise<void> huge;
    for (auto taken = workers.add(text(9 * large, [&] { huge.set_value(); })); !taken.is_ok();
         taken = workers.add(text(9 * large, [&] { huge.set_value(); })))
        std::this_thread::yield();
    EXPECT_EQ(huge.get_future().wait_for(patience), std::future_status::ready);
    workers.end();
}

TEST(TextWorkers, WhatIsWithdrawnIsNotDoneAndGivesItsPlaceBackAtOnce) {
    TextWorkers::Options options;
    options.texts_max = 3;
    TextWorkers workers(options);
    Held held(workers);
    for (int i = 0; i < 10'000; ++i) {
        const auto place = workers.add(text(large, [] { ADD_FAILURE() << "nobody wants it any more"; }));
        ASSERT_TRUE(place.is_ok()) << i;
        workers.withdraw(*place);
        workers.withdraw(*place);  // there is nothing to take back any more
    }
    held.go.set_value();
    workers.end();
}

TEST(TextWorkers, TenThousandFromManyThreadsAreDoneOrRefused) {
    TextWorkers workers({});
    std::atomic<int> done{0}, refused{0}, now{0}, most{0};
    std::vector<std::thread> askers;
    for (int asker = 0; asker < 4; ++asker) {
        askers.emplace_back([&, asker] {
            for (int i = 0; i < 2500; ++i) {
                const auto job = [&] {
                    const int at_once = ++now;
                    for (int seen = most; seen < at_once && !most.compare_exchange_weak(seen, at_once);) {
                    }
                    --now;
                    ++done;
                };
                const auto taken = workers.add(text(i % 2 == 0 ? large : 10, job, std::to_string(asker)));
                if (!taken.is_ok()) ++refused;
            }
        });
    }
    for (std::thread& asker : askers) asker.join();
    while (done + refused < 10'000) std::this_thread::yield();
    workers.end();
    EXPECT_EQ(done + refused, 10'000);
    EXPECT_LE(most, 3);
}

TEST(TextWorkers, AtTheEndDropWhatWaitsAndWaitForTheRest) {
    TextWorkers workers({});
    Held held(workers);
    const auto dropped = std::make_shared<int>(0);
    EXPECT_TRUE(workers.add(text(large, [dropped] { ADD_FAILURE() << "it waited at the end"; })).is_ok());
    std::atomic<bool> ended{false};
    std::thread ending([&] {
        workers.end();
        ended = true;
    });
    while (dropped.use_count() > 1) std::this_thread::yield();
    EXPECT_FALSE(ended);
    EXPECT_FALSE(workers.add(text(large, [] {})).is_ok());
    held.go.set_value();
    ending.join();
    EXPECT_FALSE(workers.add(text(1, [] {})).is_ok());
}

TEST(TextWorkers, AFewWordsAreNotForThem) {
    const TextWorkers workers({});
    EXPECT_TRUE(workers.is_at_once(0));
    EXPECT_TRUE(workers.is_at_once(4096));
    EXPECT_FALSE(workers.is_at_once(4097));
}

TEST(TextWorkers, WithoutThreadsATextIsDoneWhereItIsAdded) {
    TextWorkers::Options options;
    options.own_threads = false;
    TextWorkers workers(options);
    EXPECT_FALSE(workers.is_at_once(0));
    const auto here = std::this_thread::get_id();
    int done = 0;
    for (const size_t bytes : {size_t{0}, size_t{1}, large, size_t{1} << 40}) {
        EXPECT_TRUE(workers
                        .add(text(bytes,
                                  [&] {
                                      ++done;
                                      EXPECT_EQ(std::this_thread::get_id(), here);
                                  }))
                        .is_ok());
    }
    EXPECT_EQ(done, 4);
    EXPECT_TRUE(workers.add(text(1, [] { throw std::runtime_error("no memory"); })).is_ok());
    EXPECT_TRUE(workers.add(text(1, [&] { ++done; })).is_ok());
    EXPECT_EQ(done, 5);
}

}  // namespace
}  // namespace rondo
