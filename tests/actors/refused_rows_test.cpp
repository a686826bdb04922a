// A device refuses one row of a decode step: that turn ends, and the others' answers go on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "actors/decode.hpp"
#include "actors/device_runner.hpp"
#include "tests/actors/turn_fixture.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;
using testing::must;

constexpr int64_t row_tokens_max = 64;  // answers end long before

class RefusedRows : public ::testing::Test {
protected:
    RefusedRows() {
        runtime_->context_tokens = 12;
        config_.set("scheduler.policy", caf::atom("testing"));
        system_ = std::make_unique<caf::actor_system>(config_);
        Stepper::Limits limits;
        limits.chunk_tokens = 16;
        limits.decode_rows = 4;
        limits.context_tokens = row_tokens_max;
        std::shared_ptr<Stepper> stepper =
            must(Stepper::create(runtime_->model, *runtime_->pool, *runtime_->devices[0], limits));
        runner_ = system_->spawn<DeviceRunner>(runtime_, std::move(stepper),
                                               std::make_shared<DeviceRunner::PromptAttention>(),
                                               std::make_shared<Progress>(1), size_t{0});
        Decode::Options options;
        options.rows_max = 4;
        decode_ = system_->spawn<Decode>(runner_, selector_actor(), cache_actor(), options);  // it asks neither
    }
    ~RefusedRows() override {
        caf::anon_send_exit(decode_, caf::exit_reason::kill);
        caf::anon_send_exit(runner_, caf::exit_reason::kill);
        scheduler().run();
    }

    caf::scheduler::test_coordinator& scheduler() {
        return dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
    }
    /// All join before the first turn's first step is over, so that its second step has them all.
    void answer(const std::vector<TurnPtr>& turns) {
        for (const TurnPtr& turn : turns) {
            const auto ask = [this](caf::event_based_actor* self, const TurnPtr& asked) {
                self->request(decode_, caf::infinite, decode_atom::value, asked, delta_sink_actor())
                    .then([this](const StageReply& reply) { replies_.emplace(reply.turn->id, reply); });
            };
            system_->spawn(ask, turn);
        }
        auto* const runner = dynamic_cast<caf::resumable*>(caf::actor_cast<caf::abstract_actor*>(runner_));
        scheduler().run_jobs_filtered([runner](const caf::resumable* job) { return job != runner; });
        scheduler().run();
    }
    TurnPtr turn(TurnId id, std::vector<int32_t> ids) {
        const auto prompt = static_cast<int64_t>(ids.size());
        return std::make_shared<Turn>(
            testing::make_bare_turn(runtime_, id, std::move(ids), prompt, {.ignore_eos = true}));
    }
    std::vector<int32_t> answered_alone(TurnId id, int32_t first) {
        answer({turn(id, {first})});
        return replies_.extract(id).mapped().turn->ids;
    }

    RuntimePtr runtime_ = testing::small_runtime(16);
    caf::actor_system_config config_;
    std::unique_ptr<caf::actor_system> system_;
    device_runner_actor runner_;
    decode_actor decode_;
    std::map<TurnId, StageReply> replies_;
};

TEST_F(RefusedRows, EndAloneAndTheOthersGoOn) {
    const std::vector<int32_t> first_alone = answered_alone(1, 5), second_alone = answered_alone(2, 7);
    ASSERT_EQ(first_alone.size(), 12U);
    const TurnPtr full = turn(3, std::vector<int32_t>(row_tokens_max + 1, 1)), outside = turn(4, {1});
    ASSERT_TRUE(full->kv.extend(row_tokens_max));
    outside->ids.back() = static_cast<int32_t>(runtime_->model.spec.vocabulary);
    answer({turn(1, {5}), full, outside, turn(2, {7})});
    ASSERT_EQ(replies_.size(), 4U);
    for (const TurnId id : {3, 4}) {
        EXPECT_EQ(replies_.at(id).outcome, StageReply::Outcome::refused);
        EXPECT_EQ(replies_.at(id).error.code, ErrorCode::out_of_range);
    }
    EXPECT_THAT(replies_.at(3).error.message, HasSubstr("a sequence of 65 tokens, must be at most the context of 64"));
    EXPECT_THAT(replies_.at(4).error.message, HasSubstr("token id is"));
    EXPECT_EQ(full->kv.tokens(), row_tokens_max);
    EXPECT_EQ(outside->kv.tokens(), 0);
    for (const TurnId id : {1, 2}) EXPECT_EQ(replies_.at(id).outcome, StageReply::Outcome::over);
    EXPECT_EQ(replies_.at(1).turn->ids, first_alone);
    EXPECT_EQ(replies_.at(2).turn->ids, second_alone);
}

/// The first step is of one turn and the second of two, so that no row is left of either.
TEST_F(RefusedRows, MayBeAllThereAre) {
    const std::vector<TurnPtr> turns{turn(1, {1}), turn(2, {1}), turn(3, {1})};
    for (const TurnPtr& outside : turns) outside->ids.back() = -1;
    answer(turns);
    ASSERT_EQ(replies_.size(), 3U);
    for (const auto& [id, reply] : replies_) EXPECT_EQ(reply.outcome, StageReply::Outcome::refused) << id;
    EXPECT_EQ(answered_alone(4, 5).size(), 12U) << "the stage serves on";
}

}  // namespace
}  // namespace rondo
