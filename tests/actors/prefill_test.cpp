// Prompts behind keys that a disk brings, message by message. Device and cache only pretend.

#include "actors/prefill.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "tests/actors/pretended_cache.hpp"
#include "tests/actors/turn_fixture.hpp"

namespace rondo {
namespace {

using testing::PretendedCache;

/// A piece of a chunk that the device has.
struct PieceUnderWay {
    ChunkPtr chunk;
    caf::typed_response_promise<ChunkPtr> promise;
};

/// Keeps a piece until the test says that it is done.
class PretendedChunkRunner : public device_runner_actor::base {
public:
    PretendedChunkRunner(caf::actor_config& config, std::optional<PieceUnderWay>* piece)
        : device_runner_actor::base(config), piece_(piece) {}
    behavior_type make_behavior() override {
        return {
            [](step_atom, const StepPtr& step) { return step; },
            [this](chunk_atom, const ChunkPtr& chunk) {
                auto promise = make_response_promise<ChunkPtr>();
                piece_->emplace(PieceUnderWay{chunk, promise});
                return promise;
            },
            [](select_atom, const ChoiceJobPtr& job) { return job; },
            [this](done_atom, const StatusPtr&) {
                PieceUnderWay piece = *std::exchange(*piece_, std::nullopt);
                piece.promise.deliver(std::move(piece.chunk));
            },
        };
    }
    /// A promise holds its actor.
    void on_exit() override { piece_->reset(); }

private:
    std::optional<PieceUnderWay>* piece_;
};

class PrefillTest : public ::testing::Test {
protected:
    static constexpr int64_t restored = 32;
    static constexpr int layers = 3;
    static constexpr double patience_s = 5.0;

    PrefillTest() {
        config_.set("scheduler.policy", caf::atom("testing"));
        system_ = std::make_unique<caf::actor_system>(config_);
        cache_ = system_->spawn<PretendedCache>();
        runner_ = system_->spawn<PretendedChunkRunner>(&piece_);
        prefill_ = system_->spawn<Prefill>(std::vector{runner_}, cache_, Prefill::Options{});
    }
    ~PrefillTest() override {
        caf::anon_send_exit(asker_, caf::exit_reason::kill);
        caf::anon_send_exit(prefill_, caf::exit_reason::kill);
        caf::anon_send_exit(runner_, caf::exit_reason::kill);
        caf::anon_send_exit(cache_, caf::exit_reason::kill);
        run();
    }

    void run() { dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler()).run(); }
    void pass(std::chrono::seconds time) {
        dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler()).advance_time(time);
        run();
    }
    /// A prompt of 41 tokens, the keys of whose first 32 are on their way.
    void ask() {
        auto turn = std::make_shared<Turn>(testing::make_bare_turn(runtime_, 1, std::vector<int32_t>(41, 1), 41));
        ASSERT_TRUE(turn->kv.extend(restored));
        turn->restored_tokens = restored;
        turn->arrival = arrival_;
        const auto asker = [this](caf::event_based_actor* self, const TurnPtr& asked) {
            self->request(prefill_, caf::infinite, prefill_atom::value, asked).then([this](const StageReply& reply) {
                reply_ = reply;
            });
        };
        asker_ = system_->spawn(asker, std::move(turn));
        run();
    }
    void come(int layers_come) {
        arrival_->come(layers_come);
        run();
    }
    /// It has computed as many layers as it was given, or given up the chunk.
    void piece_is_done() {
        ASSERT_TRUE(piece_);
        Chunk& chunk = *piece_->chunk;
        computed_ = chunk.drop ? 0 : computed_ + chunk.layers_max;
        chunk.layer = computed_;
        chunk.open = !chunk.drop;
        caf::anon_send(runner_, done_atom::value, std::make_shared<const Status>());
        run();
    }

    caf::actor_system_config config_;
    std::unique_ptr<caf::actor_system> system_;
    RuntimePtr runtime_ = testing::small_runtime(64);
    std::optional<PieceUnderWay> piece_;
    int computed_ = 0;  // layers of the chunk
    std::optional<Arrival::Why> gave_up_;
    std::shared_ptr<Arrival> arrival_ =
        std::make_shared<Arrival>(0, restored, layers, patience_s, [this](Arrival::Why why) { gave_up_ = why; });
    cache_actor cache_;
    device_runner_actor runner_;
    prefill_actor prefill_;
    caf::actor asker_;
    std::optional<StageReply> reply_;
};

/// A disk that hung, while the device was at what had come before, goes on and hangs again.
TEST_F(PrefillTest, ADiskThatHangsOnceMoreIsNoticedOnceMore) {
    ask();
    EXPECT_FALSE(piece_) << "nothing has come";
    come(1);
    ASSERT_TRUE(piece_);
    EXPECT_EQ(piece_->chunk->layers_max, 1);
    pass(std::chrono::seconds(6));
    EXPECT_FALSE(reply_) << "the device has a piece of it";
    come(2);
    piece_is_done();
    piece_is_done();
    EXPECT_FALSE(piece_) << "the third layer is waited for";
    pass(std::chrono::seconds(4));
    EXPECT_FALSE(piece_) << "for as long as after the first one";
    EXPECT_FALSE(reply_);
    pass(std::chrono::seconds(2));
    ASSERT_TRUE(piece_);
    EXPECT_TRUE(piece_->chunk->drop);
    piece_is_done();
    ASSERT_TRUE(reply_);
    EXPECT_EQ(reply_->outcome, StageReply::Outcome::preempted);
    EXPECT_TRUE(reply_->turn->waited_in_vain);
    EXPECT_EQ(reply_->turn->kv.tokens(), 0) << "the disk may still write there";
    EXPECT_EQ(gave_up_, Arrival::Why::hangs);
}

/// The cache may still read the prompt's keys, to which decode would add the answer's. Nobody answers behind that.
TEST_F(PrefillTest, APromptIsNotAnsweredBehindACacheThatHangs) {
    const caf::actor cache = caf::actor_cast<caf::actor>(cache_);
    const auto* const hangs = dynamic_cast<caf::resumable*>(caf::actor_cast<caf::abstract_actor*>(cache));
    ASSERT_NE(hangs, nullptr);
    auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
    const auto run_others = [&] {
        scheduler.run_jobs_filtered([hangs](const caf::resumable* job) { return job != hangs; });
    };
    ask();
    come(layers);
    ASSERT_TRUE(piece_);
    Chunk& chunk = *piece_->chunk;
    ASSERT_TRUE(chunk.turn->kv.extend(chunk.turn->missing()));
    chunk.done = true;
    caf::anon_send(runner_, done_atom::value, std::make_shared<const Status>());
    run_others();
    scheduler.advance_time(std::chrono::minutes(3));
    run_others();
    EXPECT_FALSE(reply_) << "the stage ends, and the turn with it";
}

}  // namespace
}  // namespace rondo
