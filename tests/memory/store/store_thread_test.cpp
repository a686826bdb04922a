#include "memory/store/store_thread.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/result.hpp"

namespace rondo {
namespace {

class StoreThreadTest : public ::testing::Test {
protected:
    void run_tasks() {
        for (auto& task : std::exchange(tasks_, {})) std::exchange(task, nullptr)();
    }

    std::deque<std::function<void()>> tasks_;  // of the thread, which is the test's
    std::optional<StoreThread> thread_{[this](std::function<void()> task) { tasks_.push_back(std::move(task)); }};
};

TEST_F(StoreThreadTest, WhatIsHandedOverRunsThereInOrder) {
    std::string told;
    const StoreThread copy = *thread_;
    thread_->run([&told] { told += 'a'; });
    copy.run([&told] { told += 'b'; });
    EXPECT_EQ(told, "") << "not here";
    run_tasks();
    EXPECT_EQ(told, "ab");
}

TEST_F(StoreThreadTest, WhatOthersAreToldIsToldThere) {
    std::vector<Status> told;
    const auto done = thread_->handing_over<Status>([&told](const Status& end) { told.push_back(end); });
    done(Status::ok());
    done(make_error(ErrorCode::io, "no"));
    EXPECT_TRUE(told.empty());
    run_tasks();
    ASSERT_EQ(told.size(), 2U);
    EXPECT_TRUE(told[0]);
    EXPECT_EQ(told[1].error().message, "no");
}

TEST_F(StoreThreadTest, NothingRunsForWhoHasGone) {
    int ran = 0;
    const StoreThread copy = *thread_;
    const auto done = copy.handing_over<Status>([&ran](const Status&) { ++ran; });
    thread_->run([&ran] { ++ran; });
    done(Status::ok());
    EXPECT_TRUE(copy.has_owner());
    thread_.reset();
    EXPECT_FALSE(copy.has_owner());
    copy.run([&ran] { ++ran; });
    EXPECT_EQ(tasks_.size(), 3U);
    run_tasks();
    EXPECT_EQ(ran, 0);
}

TEST_F(StoreThreadTest, ACopyThatGoesEndsNothing) {
    std::optional<StoreThread> copy = *thread_;
    const StoreThread moved = *std::exchange(copy, std::nullopt);
    {
        const StoreThread of_copy = moved;
        EXPECT_TRUE(of_copy.has_owner());
    }
    EXPECT_TRUE(thread_->has_owner());
    int ran = 0;
    moved.run([&ran] { ++ran; });
    run_tasks();
    EXPECT_EQ(ran, 1);
}

/// What a task holds is let go of on the thread, run or not.
TEST_F(StoreThreadTest, WhatATaskHoldsGoesWithIt) {
    const StoreThread copy = *thread_;
    for (const bool has_owner : {true, false}) {
        if (!has_owner) thread_.reset();
        auto held = std::make_shared<int>(1);
        const std::weak_ptr<int> seen = held;
        copy.run([held = std::move(held)] {});
        EXPECT_FALSE(seen.expired());
        run_tasks();
        EXPECT_TRUE(seen.expired());
    }
}

}  // namespace
}  // namespace rondo
