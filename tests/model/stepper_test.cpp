#include "model/stepper.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;
using testing::need;
using testing::TinyEngine;

using Logits = BatchPart::Logits;

/// What a step asks for and does not get leaves every sequence as it was.
class StepperTest : public ::testing::Test {
protected:
    StepperTest() : engine_(golden::read_case("qwen2_gqa2_head32_tied"), {.blocks = 8}) {
        Stepper::Limits limits;
        limits.chunk_tokens = 16;
        limits.decode_rows = 3;
        limits.context_tokens = 32;
        limits.chunk_logit_rows = 4;
        stepper_ = need(Stepper::create(engine_.model, *engine_.pool, *engine_.device, limits));
    }
    Status prefill(SequenceKv& kv, const std::vector<int32_t>& ids, Logits logits = Logits::last) {
        RONDO_TRY(stepper_->begin_chunk(kv, ids, logits));
        return stepper_->run_chunk(kv, stepper_->layers());
    }
    size_t blocks_free() const { return engine_.pool->blocks_free(LayerGroup::upper); }
    std::vector<float> logits() {
        const auto row = stepper_->chunk_logits();
        return {row.begin(), row.end()};
    }

    TinyEngine engine_;
    std::unique_ptr<Stepper> stepper_;
    SequenceKv first_{*engine_.pool}, second_{*engine_.pool}, third_{*engine_.pool};
    const std::vector<int32_t> three_{1, 2, 3}, sixteen_ = std::vector<int32_t>(16, 4);
};

TEST_F(StepperTest, AnExhaustedPoolGrowsNobody) {
    for (SequenceKv* kv : {&first_, &second_, &third_}) need(prefill(*kv, sixteen_));
    std::vector<KvLease> taken;
    taken.push_back(need(engine_.pool->acquire(LayerGroup::upper, 3)));
    const std::vector<Stepper::Row> rows{{&first_, 5}, {&second_, 6}, {&third_, 7}};
    EXPECT_EQ(stepper_->decode(rows).error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(stepper_->refused_row(), 2U);
    for (const SequenceKv* kv : {&first_, &second_, &third_}) EXPECT_EQ(kv->tokens(), 16);
    EXPECT_EQ(blocks_free(), 0U) << "nobody else gets what the first two were promised";

    // Without the third the step goes through, and with room again the third's.
    EXPECT_TRUE(stepper_->decode(std::span(rows).first(2)));
    EXPECT_FALSE(stepper_->refused_row());
    taken.clear();
    EXPECT_TRUE(stepper_->decode(std::span(rows).last(1)));
    for (const SequenceKv* kv : {&first_, &second_, &third_}) EXPECT_EQ(kv->tokens(), 17);
}

TEST_F(StepperTest, ARefusedStepGrowsNobody) {
    for (SequenceKv* kv : {&first_, &second_, &third_}) need(prefill(*kv, three_));
    SequenceKv fourth(*engine_.pool);
    const std::vector<Stepper::Row> many{{&first_, 5}, {&second_, 5}, {&third_, 5}, {&fourth, 5}};
    const std::vector<Stepper::Row> outside{{&first_, 5}, {&second_, 97}};
    const std::vector<Stepper::Row> twice{{&first_, 5}, {&first_, 5}};
    EXPECT_THAT(stepper_->decode(many).error().message, HasSubstr("3 sequences"));
    EXPECT_EQ(stepper_->refused_row(), 3U);
    EXPECT_THAT(stepper_->decode(outside).error().message, HasSubstr("token id is 97,"));
    EXPECT_EQ(stepper_->refused_row(), 1U);
    EXPECT_THAT(stepper_->decode(twice).error().message, HasSubstr("another part of the batch writes"));
    EXPECT_EQ(stepper_->refused_row(), 1U);
    for (const SequenceKv* kv : {&first_, &second_, &third_}) EXPECT_EQ(kv->tokens(), 3);
    EXPECT_EQ(fourth.tokens(), 0);
    EXPECT_EQ(fourth.blocks_set_aside(LayerGroup::upper), 1);
    EXPECT_EQ(blocks_free(), 4U);
}

TEST_F(StepperTest, ARefusedChunkLeavesItsSequenceAndItsPlace) {
    need(prefill(first_, three_));
    const auto refused = [&](const std::vector<int32_t>& ids) {
        const Status status = stepper_->begin_chunk(first_, ids, Logits::last);
        EXPECT_EQ(first_.tokens(), 3);
        EXPECT_EQ(stepper_->chunk_layers_left(first_), 0);
        EXPECT_EQ(blocks_free(), 7U);
        return status ? std::string("none") : status.error().message;
    };
    EXPECT_THAT(refused({97}), HasSubstr("token id is 97,"));
    EXPECT_THAT(refused({}), HasSubstr("must have a sequence and tokens"));
    EXPECT_THAT(refused(std::vector<int32_t>(17)), HasSubstr("16 rows"));
    need(prefill(first_, std::vector<int32_t>(14, 3)));
    EXPECT_THAT(stepper_->begin_chunk(first_, sixteen_, Logits::last).error().message,
                HasSubstr("a sequence of 33 tokens, must be at most the context of 32"));
    EXPECT_TRUE(prefill(first_, std::vector<int32_t>(15, 3)));
}

TEST_F(StepperTest, ADroppedChunkIsAsIfItHadNeverBegun) {
    need(prefill(first_, three_));
    need(prefill(second_, three_));
    need(stepper_->begin_chunk(first_, sixteen_, Logits::last));
    need(stepper_->run_chunk(first_, 1));
    EXPECT_EQ(stepper_->chunk_layers_left(first_), stepper_->layers() - 1);
    stepper_->drop_chunk(first_);
    EXPECT_EQ(first_.tokens(), 3);
    EXPECT_EQ(first_.blocks_set_aside(LayerGroup::upper), 1) << "nobody else gets what it was promised";
    need(prefill(first_, sixteen_));
    const auto again = logits();
    need(prefill(second_, sixteen_));
    EXPECT_EQ(logits(), again);
}

TEST_F(StepperTest, ADroppedChunkIsAsExactWhenItIsComputedAgain) {
    need(prefill(first_, three_));
    first_.go_on_inexactly(19);  // as an answer would that leaves keys out
    need(stepper_->begin_chunk(first_, sixteen_, Logits::last));
    need(stepper_->run_chunk(first_, 1));
    stepper_->drop_chunk(first_);
    EXPECT_EQ(first_.exact_tokens(), 3);
    need(prefill(first_, sixteen_));
    EXPECT_EQ(first_.exact_tokens(), 19);
}

/// The sequence has room for three chunks, of which the last one's keys come from elsewhere.
TEST_F(StepperTest, KeysAreComputedBeforeOthersThatAreThere) {
    const std::vector<int32_t> eight(8, 5), four{7, 8, 9, 10};
    need(prefill(second_, three_));
    need(prefill(second_, eight, Logits::none));
    need(prefill(second_, four));
    const auto undisturbed = logits();

    need(first_.extend(11));
    need(stepper_->begin_chunk_within(first_, 0, three_));
    need(stepper_->run_chunk(first_, 1));
    stepper_->drop_chunk(first_);
    EXPECT_EQ(first_.tokens(), 11) << "what comes is kept";
    EXPECT_THAT(stepper_->begin_chunk_within(first_, 8, sixteen_).error().message,
                HasSubstr("must have room for them"));
    EXPECT_EQ(stepper_->chunk_layers_left(first_), 0);
    EXPECT_EQ(first_.tokens(), 11);
    need(stepper_->begin_chunk_within(first_, 0, three_));
    need(stepper_->run_chunk(first_, stepper_->layers()));
    need(stepper_->begin_chunk_within(first_, 3, eight));
    need(stepper_->run_chunk(first_, stepper_->layers()));
    need(prefill(first_, four));
    EXPECT_EQ(logits(), undisturbed);
}

TEST_F(StepperTest, LogitsOfAllRowsComeSomeAtATime) {
    need(prefill(first_, sixteen_, Logits::all));
    const size_t vocabulary = static_cast<size_t>(engine_.model.spec.vocabulary);
    for (int64_t first = 0; first < 16; first += 4)
        EXPECT_EQ(need(stepper_->chunk_logits(first, 4)).size(), 4 * vocabulary);
    const auto last = need(stepper_->chunk_logits(15, 1));
    const std::vector<float> of_all(last.begin(), last.end());
    need(prefill(second_, sixteen_, Logits::last));
    EXPECT_LE(golden::relative_error(logits(), of_all), 1e-5);
}

TEST_F(StepperTest, LogitsThatWereNotComputedAreRefused) {
    EXPECT_FALSE(stepper_->chunk_logits(0, 1).is_ok()) << "no chunk yet";
    need(prefill(first_, three_, Logits::all));
    EXPECT_FALSE(stepper_->chunk_logits(0, 5).is_ok());
    EXPECT_FALSE(stepper_->chunk_logits(2, 2).is_ok());
    EXPECT_FALSE(stepper_->chunk_logits(-1, 1).is_ok());
    EXPECT_FALSE(stepper_->chunk_logits(0, 0).is_ok());
    EXPECT_TRUE(stepper_->chunk_logits(2, 1).is_ok());
    need(prefill(second_, three_, Logits::none));
    EXPECT_FALSE(stepper_->chunk_logits(0, 1).is_ok());
}

}  // namespace
}  // namespace rondo
