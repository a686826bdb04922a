#include "model/batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;
using testing::need;
using testing::next_rows;
using testing::TinyEngine;

using Logits = BatchPart::Logits;

class BatchErrors : public ::testing::Test {
protected:
    BatchErrors() : engine_(golden::read_case("qwen2_gqa2_head32_tied"), {.blocks = 9, .limits = {16, 3, 32}}) {}

    TinyEngine engine_;
    SequenceKv first_{*engine_.pool}, second_{*engine_.pool}, third_{*engine_.pool}, fourth_{*engine_.pool};
    const std::vector<int32_t> three_{1, 2, 3};
};

TEST_F(BatchErrors, WhatDoesNotFitIsRefusedAndChangesNothing) {
    Batch batch = engine_.batch();
    need(batch.add(next_rows(first_, three_)));
    const auto refused = [&](std::vector<int32_t> ids) {
        const Status status = batch.add(next_rows(second_, ids));
        second_.truncate(0);
        EXPECT_EQ(batch.rows(), 3);
        EXPECT_EQ(batch.sequence_count(), 1);
        return status.is_ok() ? std::string("none") : status.error().message;
    };
    EXPECT_THAT(refused({}), HasSubstr("must have a sequence and tokens"));
    EXPECT_THAT(refused(std::vector<int32_t>(14)), HasSubstr("17 rows, must be at most 3 sequences and 16 rows"));
    EXPECT_THAT(refused(std::vector<int32_t>(33)), HasSubstr("36 rows, must be at most"));
    EXPECT_THAT(refused({5, 97}), HasSubstr("token id is 97, must be 0 to 96"));
    EXPECT_THAT(refused({-1}), HasSubstr("token id is -1,"));
    EXPECT_THAT(refused({INT32_MAX}), HasSubstr("token id is 2147483647,"));
    EXPECT_THAT(batch.add({nullptr, 0, three_}).error().message, HasSubstr("must have a sequence and tokens"));

    // The batch is as good as one that never met them.
    need(batch.prepare());
    need(engine_.transformer->forward(batch));
    EXPECT_EQ(engine_.logits(batch), engine_.run({next_rows(second_, three_)}));
}

TEST_F(BatchErrors, SequencesAndContextAreBounded) {
    Batch batch = engine_.batch();
    for (SequenceKv* kv : {&first_, &second_, &third_}) need(batch.add(next_rows(*kv, three_)));
    EXPECT_THAT(batch.add(next_rows(fourth_, three_)).error().message,
                HasSubstr("a batch of 4 sequences and 12 rows, must be at most 3 sequences"));
    fourth_.truncate(0);

    const std::vector<int32_t> sixteen(16, 4);
    engine_.run({next_rows(fourth_, sixteen)});
    engine_.run({next_rows(fourth_, std::span(sixteen).first(15))});
    batch.clear();
    EXPECT_THAT(batch.add(next_rows(fourth_, std::span(sixteen).first(2))).error().message,
                HasSubstr("a sequence of 33 tokens, must be at most the context of 32"));
    fourth_.truncate(31);
    EXPECT_TRUE(batch.add(next_rows(fourth_, std::span(sixteen).first(1))));
}

TEST_F(BatchErrors, KeysThatTheSequenceHasNoRoomForAreRefused) {
    Batch batch = engine_.batch();
    need(first_.extend(5));
    EXPECT_THAT(batch.add({&first_, 3, three_}).error().message,
                HasSubstr("rows of keys 3 to 5; the sequence must have room for them, and holds 0 to 4"));
    EXPECT_THAT(batch.add({&first_, -1, three_}).error().message, HasSubstr("rows of keys -1 to 1"));
    need(first_.extend(28));
    first_.release_before(20);
    EXPECT_THAT(batch.add({&first_, 14, three_}).error().message, HasSubstr("and holds 16 to 32"));
    EXPECT_EQ(batch.sequence_count(), 0);
}

TEST_F(BatchErrors, KeysThatTwoPartsWriteAreRefused) {
    Batch batch = engine_.batch();
    need(first_.extend(9));
    need(batch.add({&first_, 3, three_}));
    for (const int64_t key : {1, 3, 5}) {
        EXPECT_THAT(batch.add({&first_, key, three_}).error().message, HasSubstr("another part of the batch writes"));
    }
    EXPECT_TRUE(batch.add({&first_, 0, three_}));
    EXPECT_TRUE(batch.add({&first_, 6, three_}));
    EXPECT_EQ(batch.rows(), 9);
}

TEST_F(BatchErrors, MoreBlocksThanTheTablesHoldAreRefused) {
    // Rounds of one token take a block each: a context of 32 could need 32 blocks, the tables of a batch hold 8.
    const int32_t id = 9;
    Batch batch = engine_.batch();
    Status status;
    while (status.is_ok()) {
        ASSERT_LT(first_.tokens(), 9);
        batch.clear();
        first_.begin_round();
        status = batch.add(next_rows(first_, {&id, 1}, Rows::invariant));
    }
    EXPECT_EQ(status.error().code, ErrorCode::out_of_range);
    EXPECT_THAT(status.error().message, HasSubstr("a sequence of 9 KV blocks; the batch holds 8"));
    EXPECT_EQ(first_.tokens(), 9);
}

/// A prompt of known rounds and of new ones, each with as many blocks as a full context, then its answer up to the
/// context's end.
TEST(BatchOfShortRounds, HoldsTheLongestAnswerBehindThem) {
    constexpr int64_t context = 96, full = context / kv_block_tokens;
    TinyEngine engine(golden::read_case("qwen2_gqa2_head32_tied"), {.blocks = 3 * full, .limits = {1, 1, context}});
    SequenceKv kv(*engine.pool);
    Batch batch = engine.batch();
    const int32_t id = 9;
    while (kv.tokens() < context) {
        if (kv.tokens() < 2 * full) kv.begin_round();
        batch.clear();
        need(batch.add(next_rows(kv, {&id, 1}, Rows::invariant)));
        need(batch.prepare());
    }
    EXPECT_EQ(kv.blocks(LayerGroup::upper).size(), 17U);  // of the answer 15 tokens find room in the last round
}

TEST_F(BatchErrors, RowsAreLaidOutBulkFirstAndLogitsFoundByPart) {
    Batch batch = engine_.batch();
    need(batch.add(next_rows(first_, {three_.data(), 1}, Rows::invariant, Logits::last)));
    need(batch.add(next_rows(second_, three_, Rows::bulk, Logits::all)));
    need(batch.add(next_rows(third_, three_, Rows::bulk, Logits::none)));
    need(batch.prepare());
    EXPECT_EQ(batch.rows(), 7);
    EXPECT_EQ(batch.bulk_rows(), 6);
    EXPECT_EQ(batch.bulk_sequences(), 2);
    EXPECT_EQ(batch.logit_rows(), 4);
    EXPECT_EQ(batch.logits_of(0), 3);
    EXPECT_EQ(batch.logits_of(1), 0);
    EXPECT_EQ(batch.bulk_logit_rows(), 3);
    batch.clear();
    EXPECT_EQ(batch.rows(), 0);
    EXPECT_EQ(batch.sequence_count(), 0);
}

}  // namespace
}  // namespace rondo
