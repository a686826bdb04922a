// Choices of keys beside the steps: who is asked for what, and who waits for whom. Device and selector only pretend.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/decode.hpp"
#include "actors/selector.hpp"
#include "tests/actors/pretended_cache.hpp"
#include "tests/actors/turn_fixture.hpp"

namespace rondo {
namespace {

using testing::must;
using testing::PretendedCache;

constexpr int lag = 5;

/// A turn's choice on its way to the selector.
ChoiceJobPtr job_of(Turn& turn) {
    auto job = std::make_shared<ChoiceJob>();
    job->runtime = turn.runtime;
    job->turn = turn.id;
    job->choice = turn.step_attention->take_begun();
    return job;
}

/// What the test sees of a pretended runner.
struct Pieces {
    std::vector<std::pair<ChoiceJobPtr, caf::typed_response_promise<ChoiceJobPtr>>> waiting;
};

/// Answers a step by a token for each of its turns, and the piece of a choice that came first when it is told to.
class PretendedRunner : public device_runner_actor::base {
public:
    PretendedRunner(caf::actor_config& config, Pieces* pieces) : device_runner_actor::base(config), pieces_(pieces) {}
    behavior_type make_behavior() override {
        return {
            [](step_atom, const StepPtr& step) {
                for (const TurnPtr& turn : step->turns) {
                    step->status = turn->kv.extend(1);
                    turn->take({1, "", {}, turn->ids.size() > 60});
                    turn->end_step();
                }
                return step;
            },
            [](chunk_atom, const ChunkPtr& chunk) { return chunk; },
            [this](select_atom, const ChoiceJobPtr& job) {
                auto promise = make_response_promise<ChoiceJobPtr>();
                pieces_->waiting.emplace_back(job, promise);
                return promise;
            },
            [this](done_atom, const StatusPtr& status) {
                auto [job, promise] = std::move(pieces_->waiting.front());
                pieces_->waiting.erase(pieces_->waiting.begin());
                job->status = *status ? job->choice->on_device(job->choice->layers_to_score()) : *status;
                promise.deliver(std::move(job));
            },
        };
    }
    /// A promise holds its actor.
    void on_exit() override { pieces_->waiting.clear(); }

private:
    Pieces* pieces_;
};

/// Completes each choice at once and counts them.
class PretendedSelector : public selector_actor::base {
public:
    PretendedSelector(caf::actor_config& config, int* asked) : selector_actor::base(config), asked_(asked) {}
    behavior_type make_behavior() override {
        return {
            [this](select_atom, const ChoiceJobPtr& job) {
                ++*asked_;
                testing::complete(*job->choice);
                return job;
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
        runtime_->context_tokens = 256;
        config_.set("scheduler.policy", caf::atom("testing"));
        system_ = std::make_unique<caf::actor_system>(config_);
        runner_ = system_->spawn<PretendedRunner>(&pieces_);
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

    /// The device is done with the piece that came first.
    void answer(const Status& status = {}) {
        caf::anon_send(runner_, done_atom::value, std::make_shared<const Status>(status));
        run();
    }

    /// With a prompt of 40 tokens behind it, and a choice that has begun and serves some steps later.
    TurnPtr turn(TurnId id) {
        auto turn = std::make_shared<Turn>(testing::make_bare_turn(runtime_, id, std::vector<int32_t>(41, 1), 40));
        testing::choose_first_key(*turn, lag);
        EXPECT_TRUE(turn->kv.extend(40));
        turn->end_prompt(*runtime_->devices[0]);
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

    size_t blocks_in_use() const {
        return runtime_->pool->blocks_total(LayerGroup::upper) - runtime_->pool->blocks_free(LayerGroup::upper);
    }
    selector_actor spawn_selector() {
        const auto selector = system_->spawn<Selector>(runner_, cache_, Selector::Options{});
        actors_.push_back(caf::actor_cast<caf::actor>(selector));
        return selector;
    }
    decode_actor spawn_decode(const selector_actor& selector) {
        Decode::Options options;
        options.timeout = std::chrono::seconds(1);
        const auto decode = system_->spawn<Decode>(runner_, selector, cache_, options);
        actors_.push_back(caf::actor_cast<caf::actor>(decode));
        return decode;
    }

    caf::actor_system_config config_;
    std::unique_ptr<caf::actor_system> system_;
    RuntimePtr runtime_ = testing::small_runtime(64);
    Pieces pieces_;
    device_runner_actor runner_;
    cache_actor cache_;
    std::vector<caf::actor> actors_;
};

TEST_F(Choosing, AWithdrawnTurnDoesNotWaitForThoseBeforeIt) {
    const selector_actor selector = spawn_selector();
    std::vector<ChoiceJobPtr> first, second, third;
    const TurnPtr turns[] = {turn(1), turn(2), turn(3)};
    ask(selector, first, select_atom::value, job_of(*turns[0]));
    run();  // and its piece is never done
    ask(selector, second, select_atom::value, job_of(*turns[1]));
    run();
    ask(selector, third, select_atom::value, job_of(*turns[2]));
    run();
    caf::anon_send(selector, withdraw_atom::value, TurnId{2});
    run();
    ASSERT_EQ(second.size(), 1U);
    EXPECT_FALSE(second[0]->choice->complete());
    caf::anon_send(selector, withdraw_atom::value, TurnId{1});
    run();
    EXPECT_THAT(first, ::testing::IsEmpty());  // the device has it
    EXPECT_THAT(third, ::testing::IsEmpty());
    answer();
    ASSERT_EQ(first.size(), 1U);
    EXPECT_FALSE(first[0]->choice->complete());
    EXPECT_EQ(pieces_.waiting.size(), 1U) << "of the third";
}

/// The turn goes on until its choice is due and waits then; the other one does not.
TEST_F(Choosing, AChoiceThatIsLateHoldsUpItsOwnTurnAlone) {
    const decode_actor decode = spawn_decode(spawn_selector());
    const TurnPtr chooses = turn(1), dense = turn(2);
    dense->step_attention.reset();
    std::vector<StageReply> first, second;
    ask(decode, first, decode_atom::value, chooses, delta_sink_actor());
    ask(decode, second, decode_atom::value, dense, delta_sink_actor());
    run();  // and the piece of the choice is not done
    // A wait that is longer than a step may be is no fault of the device's.
    dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler()).advance_time(2 * std::chrono::seconds(1));
    run();
    std::vector<StageReply> later;
    const TurnPtr last = turn(3);
    last->step_attention.reset();
    ask(decode, later, decode_atom::value, last, delta_sink_actor());
    run();
    EXPECT_EQ(later.size(), 1U);
    EXPECT_THAT(first, ::testing::IsEmpty());
    EXPECT_EQ(chooses->ids.size(), 41U + lag);
    EXPECT_TRUE(chooses->step_attention->due());
    EXPECT_EQ(chooses->choices_waited, 1);
    ASSERT_EQ(second.size(), 1U);
    EXPECT_EQ(second[0].outcome, StageReply::Outcome::over);
    EXPECT_GT(dense->ids.size(), 60U);
    while (!pieces_.waiting.empty()) answer();
    ASSERT_EQ(first.size(), 1U);
    EXPECT_EQ(first[0].outcome, StageReply::Outcome::over);
    EXPECT_TRUE(chooses->step_attention->serving());
    EXPECT_EQ(chooses->answer_attention.selections, 1);
    EXPECT_EQ(chooses->answer_attention.given_up, 0);
}

/// A choice that is complete before it is due is not asked for again by each step until then.
TEST_F(Choosing, AChoiceIsAskedForOnce) {
    int asked = 0;
    const auto selector = system_->spawn<PretendedSelector>(&asked);
    actors_.push_back(caf::actor_cast<caf::actor>(selector));
    const decode_actor decode = spawn_decode(selector);
    std::vector<StageReply> replies;
    ask(decode, replies, decode_atom::value, turn(1), delta_sink_actor());
    run();
    ASSERT_EQ(replies.size(), 1U);
    EXPECT_EQ(replies[0].outcome, StageReply::Outcome::over);
    EXPECT_GT(replies[0].turn->ids.size(), 41U + 2 * lag);
    EXPECT_TRUE(replies[0].turn->step_attention->serving());
    EXPECT_EQ(replies[0].turn->choices_waited, 0);
    EXPECT_EQ(asked, 1);
}

/// The turn goes on without it.
TEST_F(Choosing, AChoiceWhosePieceFailsIsGivenUp) {
    const decode_actor decode = spawn_decode(spawn_selector());
    std::vector<StageReply> replies;
    ask(decode, replies, decode_atom::value, turn(1), delta_sink_actor());
    run();
    ASSERT_EQ(pieces_.waiting.size(), 1U);
    answer(make_error(ErrorCode::out_of_memory, "no room"));
    EXPECT_THAT(pieces_.waiting, ::testing::IsEmpty());
    ASSERT_EQ(replies.size(), 1U);
    EXPECT_EQ(replies[0].outcome, StageReply::Outcome::over);
    EXPECT_FALSE(replies[0].turn->step_attention->serving());
    EXPECT_EQ(replies[0].turn->answer_attention.given_up, 1);
    replies.clear();
    EXPECT_EQ(blocks_in_use(), 0U);
}

/// Who waits for memory counts on what a turn gives back when it leaves.
TEST_F(Choosing, ATurnThatIsWithdrawnLeavesWithAllItsBlocks) {
    for (const int pieces : {0, 1}) {
        const decode_actor decode = spawn_decode(spawn_selector());
        std::vector<StageReply> replies;
        ask(decode, replies, decode_atom::value, turn(1), delta_sink_actor());
        run();
        for (int i = 0; i < pieces; ++i) {
            answer();
        }
        ASSERT_EQ(pieces_.waiting.size(), 1U);
        caf::anon_send(decode, withdraw_atom::value, TurnId{1});
        run();
        EXPECT_THAT(replies, ::testing::IsEmpty()) << "the device has its choice";
        answer();
        ASSERT_EQ(replies.size(), 1U);
        EXPECT_EQ(replies[0].outcome, StageReply::Outcome::refused);
        EXPECT_EQ(replies[0].turn->answer_attention.given_up, 0);
        const int32_t block = replies[0].turn->kv.blocks(LayerGroup::upper)[0];
        EXPECT_EQ(runtime_->pool->references(LayerGroup::upper, block), 1) << pieces;
        replies.clear();
        EXPECT_EQ(blocks_in_use(), 0U) << pieces;
    }
}

/// Before a choice's first piece and while the device has one: no block is lost, and none goes back twice.
TEST_F(Choosing, BlocksOfJobsComeBackWhereStagesDie) {
    const selector_actor selector = spawn_selector();
    const decode_actor decode = spawn_decode(selector);
    std::vector<StageReply> replies;
    for (const TurnId id : {1, 2}) ask(decode, replies, decode_atom::value, turn(id), delta_sink_actor());
    run();
    ASSERT_EQ(pieces_.waiting.size(), 1U);  // and another job waits
    EXPECT_GE(blocks_in_use(), 6U);
    caf::anon_send_exit(decode, caf::exit_reason::kill);
    run();
    EXPECT_GE(blocks_in_use(), 6U) << "of the jobs alone";
    caf::anon_send_exit(selector, caf::exit_reason::kill);
    run();
    EXPECT_GE(blocks_in_use(), 3U) << "of the one that the device has";
    pieces_.waiting.clear();
    run();
    EXPECT_EQ(blocks_in_use(), 0U);
    EXPECT_THAT(replies, ::testing::IsEmpty());
}

}  // namespace
}  // namespace rondo
