// Choices of keys beside the steps: who is asked for what, and who waits for whom. Device and selector only pretend.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/decode.hpp"
#include "actors/selector.hpp"
#include "tests/actors/turn_fixture.hpp"

namespace rondo {
namespace {

using testing::must;

constexpr int lag = 5;

void complete(Turn& turn) {
    while (!turn.choice->complete()) {
        ASSERT_TRUE(turn.choice->on_device(turn.kv, turn.choice->layers_to_score()));
        turn.choice->on_host([](int64_t tasks, const std::function<void(int64_t)>& task) {
            for (int64_t i = 0; i < tasks; ++i) task(i);
        });
    }
}

/// Answers a step by a token for each of its turns, and a piece of a choice never.
class PretendedRunner : public device_runner_actor::base {
public:
    explicit PretendedRunner(caf::actor_config& config) : device_runner_actor::base(config) {}
    behavior_type make_behavior() override {
        return {
            [](step_atom, const StepPtr& step) {
                for (const TurnPtr& turn : step->turns) {
                    step->status = turn->kv.extend(1);
                    turn->take({1, "", {}, turn->ids.size() > 60});
                }
                return step;
            },
            [](chunk_atom, const ChunkPtr& chunk) { return chunk; },
            [this](select_atom, const SelectionPiecePtr&) {
                pieces_.push_back(make_response_promise<SelectionPiecePtr>());
                return pieces_.back();
            },
            [](done_atom, const StatusPtr&) {},
        };
    }
    /// A promise holds its actor.
    void on_exit() override { pieces_.clear(); }

private:
    std::vector<caf::typed_response_promise<SelectionPiecePtr>> pieces_;
};

class PretendedCache : public cache_actor::base {
public:
    explicit PretendedCache(caf::actor_config& config) : cache_actor::base(config) {}
    behavior_type make_behavior() override {
        return {
            [](take_atom, const AdmissionChoicePtr& asked) { return asked; },
            [](claim_atom, const PromptClaimPtr&) {},
            [](withdraw_atom, TurnId) {},
            [](keep_atom, const TurnPtr&) {},
            [](share_atom, const TurnPtr&) { return true; },
            [](room_atom, const BlockCounts&) { return true; },
        };
    }
};

/// Completes each choice at once and counts them.
class PretendedSelector : public selector_actor::base {
public:
    PretendedSelector(caf::actor_config& config, int* asked) : selector_actor::base(config), asked_(asked) {}
    behavior_type make_behavior() override {
        return {
            [this](select_atom, const TurnPtr& turn) {
                ++*asked_;
                complete(*turn);
                return true;
            },
            [](withdraw_atom, TurnId) {},
        };
    }

private:
    int* asked_;
};

class Choosing : public ::testing::Test {
protected:
    Choosing() {
        config_.set("scheduler.policy", caf::atom("testing"));
        system_ = std::make_unique<caf::actor_system>(config_);
        runner_ = system_->spawn<PretendedRunner>();
        cache_ = system_->spawn<PretendedCache>();
    }
    ~Choosing() override {
        for (const caf::actor& actor : actors_) caf::anon_send_exit(actor, caf::exit_reason::kill);
        actors_.clear();
        caf::anon_send_exit(runner_, caf::exit_reason::kill);
        caf::anon_send_exit(cache_, caf::exit_reason::kill);
        run();
    }

    void run() { dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler()).run(); }

    /// With a prompt of 40 tokens behind it, and a choice that serves some steps later.
    TurnPtr turn(TurnId id) {
        auto turn = std::make_shared<Turn>(testing::make_bare_turn(runtime_, id, std::vector<int32_t>(41, 1), 40));
        testing::choose_first_key(*turn, lag);
        EXPECT_TRUE(turn->kv.extend(40));
        return turn;
    }

    /// Asks, and writes the answer down when it comes.
    template <class Handle, class Answer, class... Request>
    void ask(const Handle& whom, std::vector<Answer>& answers, Request... request) {
        const auto asker = [&answers, request...](caf::event_based_actor* self, const Handle& handle) {
            self->request(handle, caf::infinite, request...).then([&answers](const Answer& answer) {
                answers.push_back(answer);
            });
        };
        actors_.push_back(system_->spawn(asker, whom));
    }

    caf::actor_system_config config_;
    std::unique_ptr<caf::actor_system> system_;
    RuntimePtr runtime_ = testing::small_runtime(64);
    device_runner_actor runner_;
    cache_actor cache_;
    std::vector<caf::actor> actors_;
};

TEST_F(Choosing, AWithdrawnTurnDoesNotWaitForThoseBeforeIt) {
    const auto selector = system_->spawn<Selector>(runner_, cache_, Selector::Options{});
    actors_.push_back(caf::actor_cast<caf::actor>(selector));
    std::vector<bool> first, second, third;
    const TurnPtr turns[] = {turn(1), turn(2), turn(3)};
    for (const TurnPtr& turn : turns) turn->choice->after_prefill(turn->kv);
    ask(selector, first, select_atom::value, turns[0]);
    run();  // and its piece is never done
    ask(selector, second, select_atom::value, turns[1]);
    run();
    ask(selector, third, select_atom::value, turns[2]);
    run();
    caf::anon_send(selector, withdraw_atom::value, TurnId{2});
    run();
    EXPECT_THAT(second, ::testing::ElementsAre(false));
    caf::anon_send(selector, withdraw_atom::value, TurnId{1});
    run();
    EXPECT_THAT(first, ::testing::IsEmpty());  // the device is at it
    EXPECT_THAT(third, ::testing::IsEmpty());
}

/// The turn goes on until its choice is due and waits then; the other one does not.
TEST_F(Choosing, AChoiceThatIsLateHoldsUpItsOwnTurnAlone) {
    const auto selector = system_->spawn<Selector>(runner_, cache_, Selector::Options{});
    actors_.push_back(caf::actor_cast<caf::actor>(selector));
    Decode::Options options;
    options.context_tokens = 256;
    options.timeout = std::chrono::seconds(1);
    const auto decode = system_->spawn<Decode>(runner_, selector, cache_, options);
    actors_.push_back(caf::actor_cast<caf::actor>(decode));
    const TurnPtr chooses = turn(1), dense = turn(2);
    dense->choice.reset();
    std::vector<StageReply> first, second;
    ask(decode, first, decode_atom::value, chooses, delta_sink_actor());
    ask(decode, second, decode_atom::value, dense, delta_sink_actor());
    run();  // and the piece of the choice is never done
    // A wait that is longer than a step may be is no fault of the device's.
    dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler()).advance_time(2 * options.timeout);
    run();
    std::vector<StageReply> later;
    const TurnPtr last = turn(3);
    last->choice.reset();
    ask(decode, later, decode_atom::value, last, delta_sink_actor());
    run();
    EXPECT_EQ(later.size(), 1U);
    EXPECT_THAT(first, ::testing::IsEmpty());
    EXPECT_EQ(chooses->ids.size(), 41U + lag);
    EXPECT_TRUE(chooses->choice->due());
    EXPECT_EQ(chooses->choices_waited, 1);
    ASSERT_EQ(second.size(), 1U);
    EXPECT_EQ(second[0].outcome, StageReply::Outcome::over);
    EXPECT_GT(dense->ids.size(), 60U);
}

/// A choice that is complete before it is due is not asked for again by each step until then.
TEST_F(Choosing, AChoiceIsAskedForOnce) {
    int asked = 0;
    const auto selector = system_->spawn<PretendedSelector>(&asked);
    actors_.push_back(caf::actor_cast<caf::actor>(selector));
    Decode::Options options;
    options.context_tokens = 256;
    const auto decode = system_->spawn<Decode>(runner_, selector, cache_, options);
    actors_.push_back(caf::actor_cast<caf::actor>(decode));
    std::vector<StageReply> replies;
    ask(decode, replies, decode_atom::value, turn(1), delta_sink_actor());
    run();
    ASSERT_EQ(replies.size(), 1U);
    EXPECT_EQ(replies[0].outcome, StageReply::Outcome::over);
    EXPECT_GT(replies[0].turn->ids.size(), 41U + 2 * lag);
    EXPECT_TRUE(replies[0].turn->choice->serving());
    EXPECT_EQ(replies[0].turn->choices_waited, 0);
    EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace rondo
