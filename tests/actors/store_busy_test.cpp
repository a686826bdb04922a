// A store whose thread is busy, or whose disk hangs, holds no turn up.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "actors/messages.hpp"
#include "tests/actors/store_actor_fixture.hpp"
#include "tests/actors/turn_fixture.hpp"

namespace rondo {
namespace {

using testing::chat;
using testing::continue_ids;
using testing::Heard;
using testing::make_bare_turn;
using testing::small_runtime;
using testing::StoreActorTest;

class BusyStoreTest : public StoreActorTest {
protected:
    /// As if the store's thread were at a long piece of work: whatever the store is told waits.
    void run_others() {
        const caf::actor store = caf::actor_cast<caf::actor>(stage_->inside().store());
        const auto* const busy = dynamic_cast<caf::resumable*>(caf::actor_cast<caf::abstract_actor*>(store));
        ASSERT_NE(busy, nullptr);
        stage_->scheduler().run_jobs_filtered([busy](const caf::resumable* job) { return job != busy; });
    }
    void pass_for_others(std::chrono::milliseconds time) {
        for (auto passed = std::chrono::milliseconds(0); passed < time; passed += std::chrono::milliseconds(10)) {
            stage_->scheduler().advance_time(caf::timespan(std::chrono::milliseconds(10)));
            run_others();
        }
    }
    /// Two histories are stored, and how they go on is known. Then the process starts anew.
    void begin() {
        start(testing::demo_in_f32(170));
        std::vector<int32_t> other = some_ids(100);
        other[0] = 300;
        for (const auto& ids : {some_ids(100), other}) {
            const Heard first = turn(continue_ids(ids, 20));
            prompts_.push_back(joined(joined(ids, first.ids), {5, 6, 7}));
        }
        wait_until_written();
        for (const auto& prompt : prompts_) undisturbed_.push_back(turn(continue_ids(prompt, 12)).ids);
        start(testing::demo_in_f32(170));
        free_ = stage_->inside().pool().blocks_free(LayerGroup::upper);
    }
    bool no_turn_holds_blocks() {
        const auto cached = static_cast<size_t>(stage_->inside().load().blocks_cached.load());
        return stage_->inside().pool().blocks_free(LayerGroup::upper) + cached == free_;
    }

    std::vector<std::vector<int32_t>> prompts_, undisturbed_;
    size_t free_ = 0;  // blocks, when nothing has begun
};

TEST_F(BusyStoreTest, ATurnIsComputedAndTheStoreServesLater) {
    begin();
    const int64_t asked_before = figures().tokens_asked;
    Heard heard;
    stage_->engine().ask(continue_ids(prompts_[0], 12), heard.callbacks());
    run_others();
    EXPECT_TRUE(heard.ids.empty()) << "the store may take the turn soon";
    pass_for_others(std::chrono::seconds(3));
    ASSERT_EQ(heard.ends.size(), 1U);
    EXPECT_EQ(heard.ids, undisturbed_[0]);
    EXPECT_LT(heard.ends[0].timings.first_token, 1.0);
    EXPECT_EQ(heard.ends[0].usage.restored_tokens, 0);
    EXPECT_EQ(heard.ends[0].usage.recomputed_tokens, std::ssize(prompts_[0]));

    wait_until_written();
    EXPECT_EQ(figures().tokens_asked - asked_before, std::ssize(prompts_[0]) - 1) << "the store counts what it missed";
    EXPECT_EQ(figures().tokens_found, 0);
    EXPECT_TRUE(no_turn_holds_blocks());
    const Heard restored = turn(continue_ids(prompts_[1], 12));
    EXPECT_EQ(restored.ids, undisturbed_[1]);
    EXPECT_GE(restored.ends[0].usage.restored_tokens, 119);
}

TEST_F(BusyStoreTest, ATurnComesBackWhenTheStoreIsBusyForAShortTime) {
    begin();
    Heard heard;
    stage_->engine().ask(continue_ids(prompts_[0], 12), heard.callbacks());
    run_others();
    pass_for_others(std::chrono::milliseconds(150));
    EXPECT_TRUE(heard.ids.empty());
    run_until([&heard] { return !heard.ends.empty(); });
    EXPECT_EQ(heard.ids, undisturbed_[0]);
    EXPECT_GE(heard.ends[0].usage.restored_tokens, 119);
}

/// The first turn waits for the disk and the second for what is read for the first: no session takes its turn back.
TEST_F(BusyStoreTest, ATurnThatTheStoreHasTakenStaysTheStores) {
    begin();
    std::vector<Heard> heard(2);
    for (Heard& one : heard) stage_->engine().ask(continue_ids(prompts_[0], 12), one.callbacks());
    stage_->run();
    stage_->pass(std::chrono::milliseconds(300));  // and nobody takes up what the disk has read
    for (const Heard& one : heard) EXPECT_TRUE(one.ids.empty());
    run_until([&] { return std::ranges::all_of(heard, [](const Heard& one) { return !one.ends.empty(); }); });
    for (const Heard& one : heard) {
        EXPECT_EQ(one.ids, undisturbed_[0]);
        EXPECT_GE(one.ends[0].usage.cached_tokens + one.ends[0].usage.restored_tokens, 119);
    }
    run_until([this] { return no_turn_holds_blocks(); });
}

TEST_F(BusyStoreTest, ATurnThatIsCancelledLetsGoOfItsBlocks) {
    begin();
    Heard heard;
    const TurnId id = stage_->engine().ask(continue_ids(prompts_[0], 12), heard.callbacks());
    run_others();
    stage_->engine().cancel(id);
    run_others();
    EXPECT_EQ(heard.ends.size(), 1U);
    pass_for_others(std::chrono::milliseconds(300));
    EXPECT_EQ(stage_->inside().load().turns, 0U);
    EXPECT_TRUE(no_turn_holds_blocks());
    run_until([this] { return no_turn_holds_blocks(); });
    EXPECT_EQ(heard.ends.size(), 1U);
    EXPECT_EQ(turn(continue_ids(prompts_[0], 12)).ids, undisturbed_[0]);
}

TEST_F(BusyStoreTest, AStoreThatDiesWithAnOfferIsNotWaitedFor) {
    begin();
    Heard heard;
    stage_->engine().ask(continue_ids(prompts_[0], 12), heard.callbacks());
    run_others();
    caf::anon_send_exit(stage_->inside().store(), caf::exit_reason::kill);
    stage_->run();
    ASSERT_EQ(heard.ends.size(), 1U);
    EXPECT_EQ(heard.ids, undisturbed_[0]);
}

/// Nearly all of the prompt has keys: the turn does not wait for the store at all.
TEST_F(BusyStoreTest, ATurnThatMissesLessThanABlockNeverAsks) {
    start();
    const Heard first = turn(continue_ids(some_ids(100), 20));
    wait_until_written();
    const int64_t asked_before = figures().tokens_asked;
    Heard heard;
    stage_->engine().ask(continue_ids(joined(joined(some_ids(100), first.ids), {5, 6, 7}), 20), heard.callbacks());
    run_others();
    ASSERT_EQ(heard.ends.size(), 1U);
    EXPECT_EQ(heard.ends[0].usage.cached_tokens, 119);
    wait_until_written();
    EXPECT_EQ(figures().tokens_asked, asked_before);
}

/// A conversation waits once for a store that does not answer. What it has become is kept when the store goes on.
TEST_F(BusyStoreTest, AConversationGoesOnAndIsKeptAsItStandsAtLast) {
    start();
    std::string text;
    while (text.size() < 400) text += "The code of the red box is 4817. ";
    const auto say = [&](const std::string& what) {
        Heard heard;
        stage_->engine().ask(chat("c", what, 8), heard.callbacks());
        run_others();
        if (heard.ends.empty()) pass_for_others(std::chrono::milliseconds(300));
        EXPECT_EQ(heard.ends.size(), 1U);
        return heard.ends.empty() ? 0.0 : heard.ends[0].timings.first_token;
    };
    EXPECT_GT(say(text), 0.0);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(say(text), 0.0) << "the earlier offer has no answer yet";
    wait_until_written();
    EXPECT_EQ(figures().conversations, 1U);
    start();
    EXPECT_EQ(answer<ConversationInfoPtr>(list_atom::value, ConversationName{"t", "c"})->rounds.size(), 4U);
}

/// Requests to a conversation that is still being read. Each is told of as it is answered.
class ConversationThatIsRead : public BusyStoreTest {
protected:
    void SetUp() override {
        start();
        turn(chat("c", "Hello!", 4));
        wait_until_written();
        start();
    }
    void rewind() {
        const auto host = [this](caf::event_based_actor* self, const front_actor& front) {
            self->request(front, caf::infinite, rewind_atom::value, name_, int64_t{0})
                .then([this](const ConversationInfoPtr&) { answers_.emplace_back("done"); },
                      [this](const caf::error& error) { answers_.push_back(from_caf(error, "the router").message); });
        };
        stage_->system().spawn(host, stage_->engine().front());
        run_others();
    }
    void ask(Heard& heard) {
        stage_->engine().ask(chat("c", "And now?", 4), heard.callbacks());
        run_others();
    }
    size_t rounds() { return answer<ConversationInfoPtr>(list_atom::value, name_)->rounds.size(); }

    const ConversationName name_{"t", "c"};
    std::vector<std::string> answers_;
};

TEST_F(ConversationThatIsRead, IsNotRewoundBehindATurn) {
    Heard heard;
    ask(heard);
    rewind();
    EXPECT_THAT(answers_, ::testing::ElementsAre(::testing::HasSubstr("has a turn under way")));
    run_until([&heard] { return !heard.ends.empty(); });
    EXPECT_NE(heard.ends[0].outcome, TurnOutcome::failed) << heard.ends[0].error.message;
    EXPECT_EQ(rounds(), 2U);
}

TEST_F(ConversationThatIsRead, IsRewoundBeforeATurnThatComesLater) {
    Heard heard;
    rewind();
    ask(heard);
    rewind();
    EXPECT_THAT(answers_, ::testing::ElementsAre(::testing::HasSubstr("has a turn under way"))) << "the second alone";
    run_until([&heard] { return !heard.ends.empty(); });
    EXPECT_NE(heard.ends[0].outcome, TurnOutcome::failed) << heard.ends[0].error.message;
    ASSERT_EQ(answers_.size(), 2U);
    EXPECT_EQ(answers_[1], "done");
    EXPECT_EQ(rounds(), 1U) << "the turn's own";
}

TEST_F(ConversationThatIsRead, IsRewoundOnceItsTurnIsCancelled) {
    Heard heard;
    const TurnId turn = stage_->engine().ask(chat("c", "And now?", 4), heard.callbacks());
    run_others();
    stage_->engine().cancel(turn);
    rewind();
    EXPECT_EQ(heard.ends.size(), 1U);
    EXPECT_TRUE(answers_.empty());
    run_until([this] { return !answers_.empty(); });
    EXPECT_EQ(answers_[0], "done");
    EXPECT_EQ(rounds(), 0U);
}

TEST_F(ConversationThatIsRead, TellsWhoWaitsWhenItsActorDies) {
    rewind();
    EXPECT_TRUE(answers_.empty());
    caf::actor session;
    const auto listen = [&session](listener_actor::pointer, int) -> listener_actor::behavior_type {
        return {[&session](const TurnBegun& begun) { session = begun.session; }, [](TurnDelta) {}, [](TurnEnd) {}};
    };
    Ask asked = chat("c", "And now?", 4);
    asked.id = stage_->engine().new_turn_id();
    asked.listener = stage_->system().spawn(listen, 0);
    const listener_actor listener = asked.listener;
    caf::anon_send(stage_->inside().router(), ask_atom::value, AskPtr(std::make_shared<Ask>(std::move(asked))));
    run_others();
    ASSERT_TRUE(session);
    caf::anon_send_exit(session, caf::exit_reason::kill);
    session = nullptr;
    run_others();
    EXPECT_THAT(answers_, ::testing::ElementsAre(::testing::HasSubstr("actor has ended"))) << "no time has passed";
    caf::anon_send_exit(listener, caf::exit_reason::kill);
    run_others();
}

TEST(KeepSlot, HoldsTheNewestState) {
    KeepSlot slot;
    EXPECT_FALSE(slot.take());
    const auto state = [](uint64_t cuts, std::optional<int64_t> tokens_left) {
        ConversationToKeep state;
        state.key.cuts = cuts;
        state.tokens_left = tokens_left;
        return state;
    };
    EXPECT_TRUE(slot.put(state(0, {})));
    EXPECT_FALSE(slot.put(state(1, 30))) << "one message waits already";
    EXPECT_FALSE(slot.put(state(1, {})));
    EXPECT_FALSE(slot.put(state(2, 40)));
    const std::optional<ConversationToKeep> taken = slot.take();
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->key.cuts, 2U);
    EXPECT_EQ(taken->tokens_left, 30) << "what the first cut took back does not return";
    EXPECT_FALSE(slot.take());
    EXPECT_TRUE(slot.put(state(2, {})));
    EXPECT_FALSE(slot.take()->tokens_left);
}

TEST(TurnOffer, HasOneOwner) {
    const RuntimePtr runtime = small_runtime(4);
    for (int i = 0; i < 200; ++i) {
        const auto turn = std::make_shared<Turn>(make_bare_turn(runtime, 1, {1, 2, 3}, 3));
        TurnOffer offer(turn);
        EXPECT_EQ(offer.tokens(), 2);
        bool taken = false;
        std::thread store([&] { taken = offer.take(); });
        const TurnPtr back = offer.take_back();
        store.join();
        EXPECT_EQ(taken, back == nullptr);
        EXPECT_EQ(offer.turn(), taken ? turn : nullptr) << "an offer that was taken back holds nothing";
        EXPECT_FALSE(offer.take());
        EXPECT_EQ(offer.take_back(), nullptr);
    }
}

/// While the store waits for something, its session may still have the turn back.
TEST(TurnOffer, IsFreeAgainWhileItWaits) {
    const RuntimePtr runtime = small_runtime(4);
    const auto turn = std::make_shared<Turn>(make_bare_turn(runtime, 1, {1, 2, 3}, 3));
    TurnOffer offer(turn);
    EXPECT_EQ(offer.patience(), 0.0);
    ASSERT_TRUE(offer.take());
    EXPECT_EQ(offer.take_back(), nullptr);
    EXPECT_TRUE(offer.wait(7.0));
    EXPECT_EQ(offer.patience(), 7.0);
    EXPECT_EQ(offer.patience(), 0.0) << "it is told once";
    EXPECT_TRUE(offer.take());
    EXPECT_EQ(offer.take_back(), nullptr);
    EXPECT_TRUE(offer.wait(7.0));
    EXPECT_FALSE(offer.was_taken_back());
    EXPECT_EQ(offer.take_back(), turn);
    EXPECT_TRUE(offer.was_taken_back());
    EXPECT_FALSE(offer.take());
}

/// Its turn was cancelled while the store was looking at it.
TEST(TurnOffer, DoesNotWaitOnceItIsCalledOff) {
    const RuntimePtr runtime = small_runtime(4);
    const auto turn = std::make_shared<Turn>(make_bare_turn(runtime, 1, {1, 2, 3}, 3));
    TurnOffer taken(turn);
    ASSERT_TRUE(taken.take());
    EXPECT_EQ(taken.call_off(), nullptr);
    EXPECT_FALSE(taken.wait(600.0));
    EXPECT_EQ(taken.take_back(), nullptr) << "the store has it, and gives it back";
    EXPECT_EQ(taken.turn(), turn);
    TurnOffer waits(turn);
    ASSERT_TRUE(waits.take());
    ASSERT_TRUE(waits.wait(600.0));
    EXPECT_EQ(waits.call_off(), turn);
    EXPECT_FALSE(waits.take());
}

TEST(TurnOffer, IsNeverLeftWaitingWhenItIsCalledOff) {
    const RuntimePtr runtime = small_runtime(4);
    for (int i = 0; i < 200; ++i) {
        const auto turn = std::make_shared<Turn>(make_bare_turn(runtime, 1, {1, 2, 3}, 3));
        TurnOffer offer(turn);
        ASSERT_TRUE(offer.take());
        bool waits = false;
        std::thread store([&] { waits = offer.wait(600.0); });
        const TurnPtr back = offer.call_off();
        store.join();
        const bool is_the_stores = !waits && !offer.was_taken_back();
        EXPECT_NE(is_the_stores, back != nullptr) << "one of them has it, and it does not wait";
    }
}

}  // namespace
}  // namespace rondo
