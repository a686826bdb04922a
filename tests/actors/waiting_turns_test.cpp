// The turns of a conversation that wait: in which order they begin, and what becomes of the first one's text.

#include "actors/waiting_turns.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

namespace rondo {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class WaitingTurnsTest : public ::testing::Test {
protected:
    void push(TurnId id, double now = 0.0) {
        auto ask = std::make_shared<Ask>();
        ask->id = id;
        ask->priority = static_cast<int>(id % 2);
        waiting_.push(std::move(ask), now);
    }
    std::vector<TurnId> ids() const {
        std::vector<TurnId> ids;
        for (const WaitingTurns::Waiting& one : waiting_.all()) ids.push_back(one.ask->id);
        return ids;
    }
    static std::shared_ptr<TextWorkers> workers(size_t texts_max = 3) {
        TextWorkers::Options options;
        options.texts_max = texts_max;
        return std::make_shared<TextWorkers>(options);
    }

    WaitingTurns waiting_;
};

TEST_F(WaitingTurnsTest, BeginInOrderOnceTheirTextIsMade) {
    EXPECT_FALSE(waiting_.wants_text());
    EXPECT_FALSE(waiting_.is_ready());
    push(7, 1.0);
    push(3, 2.0);
    EXPECT_EQ(waiting_.behind(), 2U);
    ASSERT_TRUE(waiting_.wants_text());
    const auto texts = workers();
    EXPECT_EQ(waiting_.begin_text(texts).turn(), 7U);
    EXPECT_EQ(waiting_.behind(), 1U) << "its text is being made";
    EXPECT_FALSE(waiting_.wants_text());
    EXPECT_FALSE(waiting_.is_ready());
    EXPECT_FALSE(waiting_.text_is_made(3, NewTurn{})) << "it is not its turn";
    EXPECT_TRUE(waiting_.text_is_made(7, NewTurn{}));
    ASSERT_TRUE(waiting_.is_ready());
    const WaitingTurns::Ready first = waiting_.take_ready();
    EXPECT_EQ(first.turn.ask->id, 7U);
    EXPECT_EQ(first.turn.arrived, 1.0);
    EXPECT_TRUE(first.made);
    EXPECT_FALSE(waiting_.is_ready());
    ASSERT_TRUE(waiting_.wants_text());
    waiting_.begin_text(texts).is_made(make_error(ErrorCode::context_full, "too long"));
    const WaitingTurns::Ready second = waiting_.take_ready();
    EXPECT_EQ(second.turn.ask->id, 3U);
    ASSERT_FALSE(second.made);
    EXPECT_EQ(second.made.error().code, ErrorCode::context_full);
    EXPECT_TRUE(waiting_.empty());
    EXPECT_FALSE(waiting_.wants_text());
}

TEST_F(WaitingTurnsTest, DropTheTextOfTheOneThatLeaves) {
    for (const TurnId id : {1, 2, 3}) push(id);
    const auto texts = workers();
    const std::stop_token stop = waiting_.begin_text(texts).stop();
    EXPECT_EQ(waiting_.take_out(9), nullptr);
    EXPECT_EQ(waiting_.take_out(2)->id, 2U);
    EXPECT_FALSE(stop.stop_requested()) << "that one had no text yet";
    EXPECT_FALSE(waiting_.wants_text());
    EXPECT_EQ(waiting_.take_out(1)->id, 1U);
    EXPECT_TRUE(stop.stop_requested());
    EXPECT_TRUE(waiting_.wants_text());
    EXPECT_FALSE(waiting_.text_is_made(1, NewTurn{})) << "it comes too late";
    EXPECT_THAT(ids(), ElementsAre(3));
    EXPECT_EQ(waiting_.take_first()->id, 3U);
    EXPECT_TRUE(waiting_.empty());
}

TEST_F(WaitingTurnsTest, AreNamedFromTheLastOn) {
    for (const TurnId id : {1, 2, 3, 4, 5}) push(id);
    EXPECT_THAT(waiting_.from_last([](const Ask& ask) { return ask.priority == 1; }), ElementsAre(5, 3, 1));
    EXPECT_THAT(waiting_.from_last([](const Ask&) { return false; }), IsEmpty());
    EXPECT_THAT(ids(), ElementsAre(1, 2, 3, 4, 5));
    const std::stop_token stop = waiting_.begin_text(workers()).stop();
    waiting_.clear();
    EXPECT_TRUE(waiting_.empty());
    EXPECT_TRUE(stop.stop_requested());
}

/// Both threads for long texts are at one, and there is room for a third.
TEST_F(WaitingTurnsTest, ADroppedTextGivesItsPlaceBack) {
    constexpr size_t large = size_t{64} << 10;
    const auto texts = workers(3);
    std::promise<void> go;
    const std::shared_future<void> until = go.get_future().share();
    std::atomic<int> begun{0};
    std::atomic<bool> done{false};
    const auto add = [&](TextQueue::Job job) {
        return texts->add(TextQueue::Text{"t", "t\nc", 0, large, std::move(job)});
    };
    for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(add([&] {
            ++begun;
            until.wait();
        }));
    }
    while (begun < 2) std::this_thread::yield();
    push(1);
    TurnText& text = waiting_.begin_text(texts);
    const auto place = add([&] { done = true; });
    ASSERT_TRUE(place);
    text.waits(*place);
    EXPECT_FALSE(add([] {})) << "there is room for no more";
    waiting_.take_out(1);
    EXPECT_TRUE(add([] {}));
    go.set_value();
    texts->end();
    EXPECT_FALSE(done) << "nobody wanted it";
}

}  // namespace
}  // namespace rondo
