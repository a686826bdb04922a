// Who is let in, message by message. The cache only pretends: it answers when the test says so, and as the test says.

#include "actors/admission.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/actors/pretended_cache.hpp"
#include "tests/actors/turn_fixture.hpp"

namespace rondo {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::PretendedCache;
using Outcome = AdmissionDecision::Outcome;

class AdmissionTest : public ::testing::Test {
protected:
    AdmissionTest() {
        config_.set("scheduler.policy", caf::atom("testing"));
        system_ = std::make_unique<caf::actor_system>(config_);
        cache_ = system_->spawn<PretendedCache>(&told_);
        Admission::Options options;
        options.running_max = 2;
        options.tokens_max = 256;
        admission_ = system_->spawn<Admission>(cache_, options);
    }
    ~AdmissionTest() override {
        for (const caf::actor& actor : askers_) caf::anon_send_exit(actor, caf::exit_reason::kill);
        askers_.clear();
        caf::anon_send_exit(admission_, caf::exit_reason::kill);
        caf::anon_send_exit(cache_, caf::exit_reason::kill);
        run();
    }

    void run() { dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler()).run(); }
    TurnPtr turn(TurnId id, int preemptions = 0) {
        auto turn = std::make_shared<Turn>(testing::make_bare_turn(runtime_, id, std::vector<int32_t>(41, 1), 41));
        turn->space = "t";
        turn->flow = "t\n" + std::to_string(id);
        turn->preemptions = preemptions;
        return turn;
    }
    /// A turn asks to be let in, and what becomes of it is written down.
    void ask(TurnId id, int preemptions = 0) {
        const auto asker = [this](caf::event_based_actor* self, const TurnPtr& turn) {
            self->request(admission_, caf::infinite, admit_atom::value, turn).then([this](const StageReply& reply) {
                const bool in = reply.outcome == StageReply::Outcome::done;
                (in ? let_in_ : handed_back_).push_back(reply.turn->id);
                if (in) running_.push_back(reply.turn);
                if (!in) errors_.push_back(reply.error.code);
            });
        };
        askers_.push_back(system_->spawn(asker, turn(id, preemptions)));
        run();
    }
    /// Turns 1 to `count`, and the cache is asked about all of them.
    void ask_all(TurnId count) {
        for (TurnId id = 1; id <= count; ++id) ask(id);
        answer(Outcome::later);
        pass(std::chrono::milliseconds(5));
        ASSERT_EQ(candidates().size(), count);
    }
    void withdraw(TurnId id) {
        caf::anon_send(admission_, withdraw_atom::value, id);
        run();
    }
    void close(TurnId id) {
        std::erase_if(running_, [id](const TurnPtr& turn) { return turn->id == id; });
        caf::anon_send(admission_, closed_atom::value, id);
        run();
    }
    /// The turns that the cache was asked about last.
    std::vector<TurnId> candidates() const {
        std::vector<TurnId> ids;
        for (const auto& candidate : told_.asked.back().first->candidates) ids.push_back(candidate.turn->id);
        return ids;
    }
    bool may_pass() const { return told_.asked.back().first->may_pass; }
    void answer(Outcome outcome, size_t chosen = 0) {
        ASSERT_EQ(told_.asked.size(), 1U);
        AdmissionDecision& asked = *told_.asked.back().first;
        asked.outcome = outcome;
        asked.chosen = chosen;
        asked.wait_seconds = 0.005;
        caf::anon_send(cache_, room_atom::value, BlockCounts{});
        run();
    }
    void pass(std::chrono::milliseconds time) {
        dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler()).advance_time(time);
        run();
    }

    caf::actor_system_config config_;
    std::unique_ptr<caf::actor_system> system_;
    RuntimePtr runtime_ = testing::small_runtime(64);
    PretendedCache::Told told_;
    cache_actor cache_;
    admission_actor admission_;
    std::vector<caf::actor> askers_;
    std::vector<TurnPtr> running_;
    std::vector<TurnId> let_in_, handed_back_;
    std::vector<ErrorCode> errors_;
};

TEST_F(AdmissionTest, OfThreeLetInOneIsTheFirst) {
    ask_all(8);
    for (int round = 0; round < 2; ++round) {
        for (int i = 0; i < 2; ++i) {
            EXPECT_TRUE(may_pass());
            const TurnId passes = candidates()[1];
            answer(Outcome::let_in, 1);
            EXPECT_EQ(let_in_.back(), passes);
            close(passes);
        }
        EXPECT_FALSE(may_pass());
        const TurnId first = candidates()[0];
        answer(Outcome::let_in);
        EXPECT_EQ(let_in_.back(), first);
        close(first);
    }
    EXPECT_EQ(let_in_.size(), 6U);
}

/// It may take what it was asked for later, and nobody would give that back: all stages begin anew.
TEST_F(AdmissionTest, ACacheThatSaysNothingEndsIt) {
    ask_all(2);
    pass(std::chrono::seconds(31));
    EXPECT_THAT(handed_back_, IsEmpty()) << "turns are asked for again by their sessions";
    answer(Outcome::let_in);
    EXPECT_THAT(let_in_, IsEmpty());
}

TEST_F(AdmissionTest, ATurnThatComesBackIsNotPassedAndLetsNoneMorePass) {
    ask_all(6);
    for (int i = 0; i < 2; ++i) {
        const TurnId passes = candidates()[1];
        answer(Outcome::let_in, 1);
        close(passes);
    }
    answer(Outcome::no_room);  // asked while the second one ran still
    answer(Outcome::no_room);
    EXPECT_THAT(handed_back_, ElementsAre(1)) << "nothing ran, so there will be no room";
    ask(20);
    answer(Outcome::let_in);  // 4: its turn
    ask(9, 1);
    answer(Outcome::let_in, 1);
    close(let_in_.back());
    EXPECT_THAT(candidates(), ElementsAre(9));
    EXPECT_FALSE(may_pass());
    answer(Outcome::let_in);
    EXPECT_EQ(let_in_.back(), 9U);
    close(9);
    EXPECT_TRUE(may_pass());
    answer(Outcome::let_in, 1);
    close(let_in_.back());
    EXPECT_FALSE(may_pass());
}

/// The cache found no room while one turn ran, and that turn ends before its answer comes.
TEST_F(AdmissionTest, ATurnIsNotRefusedForOneThatEndedMeanwhile) {
    ask(1);
    answer(Outcome::let_in);
    ask(2);
    close(1);
    answer(Outcome::no_room);
    EXPECT_THAT(handed_back_, IsEmpty());
    ASSERT_EQ(told_.asked.size(), 1U) << "it is asked for again at once";
    EXPECT_EQ(told_.asked.back().first->running, 0);
    answer(Outcome::let_in);
    EXPECT_THAT(let_in_, ElementsAre(1, 2));
}

TEST_F(AdmissionTest, WhatIsTakenBackWhileTheStoreLooksIsHandedBackOnce) {
    ask_all(4);
    withdraw(1);
    withdraw(3);
    EXPECT_THAT(handed_back_, IsEmpty()) << "the cache has them";
    answer(Outcome::let_in);
    EXPECT_THAT(handed_back_, ElementsAre(1, 3));
    EXPECT_THAT(errors_, ElementsAre(ErrorCode::cancelled, ErrorCode::cancelled));
    EXPECT_THAT(candidates(), ElementsAre(2, 4));
    withdraw(2);
    answer(Outcome::no_room);
    EXPECT_THAT(handed_back_, ElementsAre(1, 3, 2));
    EXPECT_THAT(let_in_, IsEmpty());
}

TEST_F(AdmissionTest, ATurnThatWaitsHasAClaim) {
    ask(1);
    EXPECT_THAT(told_.claims, IsEmpty()) << "asked for at once";
    ask(2);
    answer(Outcome::let_in);
    answer(Outcome::let_in);
    ask(3);
    ask(4);
    EXPECT_THAT(told_.claims, ElementsAre(2, 3, 4));
    EXPECT_THAT(told_.asked, IsEmpty()) << "as many run as may";
    withdraw(3);
    EXPECT_THAT(told_.forgotten, ElementsAre(3));
    close(1);
    EXPECT_THAT(candidates(), ElementsAre(4));
}

TEST_F(AdmissionTest, AsksAgainWhenTheOneExpectedHasNotCome) {
    ask(1);
    answer(Outcome::let_in);
    ask(2);
    answer(Outcome::later);
    EXPECT_THAT(told_.asked, IsEmpty());
    pass(std::chrono::milliseconds(4));
    EXPECT_THAT(told_.asked, IsEmpty());
    pass(std::chrono::milliseconds(1));
    EXPECT_THAT(candidates(), ElementsAre(2));
    answer(Outcome::later);
    ask(3);
    EXPECT_THAT(candidates(), ElementsAre(2, 3)) << "whoever comes may be the one";
}

}  // namespace
}  // namespace rondo
