#include "model/batch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/tiny_engine.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;
using testing::need;
using testing::TinyEngine;

using Logits = BatchPart::Logits;

class BatchErrors : public ::testing::Test {
protected:
    BatchErrors() : engine_(golden::read_case("qwen2_gqa2_head32_tied"), {.blocks = 8, .limits = {16, 3, 32}}) {}

    TinyEngine engine_;
    SequenceKv first_{*engine_.pool}, second_{*engine_.pool}, third_{*engine_.pool}, fourth_{*engine_.pool};
    const std::vector<int32_t> three_{1, 2, 3};
};

TEST_F(BatchErrors, WhatDoesNotFitIsRefusedAndChangesNothing) {
    Batch batch = engine_.batch();
    need(batch.add({&first_, three_}));
    const auto refused = [&](SequenceKv& kv, std::vector<int32_t> ids) {
        const Status status = batch.add({&kv, ids});
        EXPECT_EQ(batch.rows(), 3);
        EXPECT_EQ(batch.sequence_count(), 1);
        EXPECT_EQ(kv.tokens(), 0);
        return status.is_ok() ? std::string("none") : status.error().message;
    };
    EXPECT_THAT(refused(second_, {}), HasSubstr("without tokens"));
    EXPECT_THAT(refused(second_, std::vector<int32_t>(14)), HasSubstr("16 rows"));
    EXPECT_THAT(refused(second_, std::vector<int32_t>(33)), HasSubstr("16 rows"));
    EXPECT_THAT(refused(second_, {5, 97}), HasSubstr("token id 97; ids from 0 to 96"));
    EXPECT_THAT(refused(second_, {-1}), HasSubstr("token id -1"));
    EXPECT_THAT(refused(second_, {INT32_MAX}), HasSubstr("token id 2147483647"));

    // The batch is as good as one that never met them.
    need(batch.prepare());
    need(engine_.transformer->forward(batch));
    EXPECT_EQ(engine_.logits(batch), engine_.run({{&second_, three_}}));
}

TEST_F(BatchErrors, SequencesAndContextAreBounded) {
    Batch batch = engine_.batch();
    for (SequenceKv* kv : {&first_, &second_, &third_}) need(batch.add({kv, three_}));
    EXPECT_THAT(batch.add({&fourth_, three_}).error().message, HasSubstr("3 sequences"));

    const std::vector<int32_t> sixteen(16, 4);
    engine_.run({{&fourth_, sixteen}});
    engine_.run({{&fourth_, std::span(sixteen).first(15)}});
    batch.clear();
    EXPECT_THAT(batch.add({&fourth_, std::span(sixteen).first(2)}).error().message,
                HasSubstr("a sequence of 33 tokens; the context holds 32"));
    EXPECT_TRUE(batch.add({&fourth_, std::span(sixteen).first(1)}));
}

TEST_F(BatchErrors, ExhaustedPoolExtendsNobody) {
    std::vector<KvLease> taken;
    taken.push_back(need(engine_.pool->acquire(LayerGroup::upper, 6)));
    Batch batch = engine_.batch();
    for (SequenceKv* kv : {&first_, &second_, &third_}) need(batch.add({kv, three_}));
    const Status exhausted = batch.prepare();
    ASSERT_FALSE(exhausted);
    EXPECT_EQ(exhausted.error().code, ErrorCode::out_of_memory);
    for (const SequenceKv* kv : {&first_, &second_, &third_}) EXPECT_EQ(kv->tokens(), 0);
    EXPECT_EQ(engine_.pool->blocks_free(LayerGroup::upper), 2U);

    // With room again, the same batch goes through.
    taken.clear();
    ASSERT_TRUE(batch.prepare());
    for (const SequenceKv* kv : {&first_, &second_, &third_}) EXPECT_EQ(kv->tokens(), 3);
}

TEST_F(BatchErrors, ExhaustedPoolLeavesLongerSequencesWhereTheyWere) {
    const std::vector<int32_t> fifteen(15, 7);
    engine_.run({{&first_, fifteen}});
    second_.begin_round();
    engine_.run({{&second_, three_}});
    const KvLease taken = need(engine_.pool->acquire(LayerGroup::upper, 6));
    Batch batch = engine_.batch();
    need(batch.add({&second_, three_}));
    need(batch.add({&first_, three_}));
    EXPECT_EQ(batch.prepare().error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(first_.tokens(), 15);
    EXPECT_EQ(second_.tokens(), 3);
    EXPECT_EQ(first_.blocks(LayerGroup::upper).size(), 1U);
    EXPECT_EQ(second_.blocks(LayerGroup::upper).size(), 1U);
}

TEST_F(BatchErrors, MoreBlocksThanTheTablesHoldAreRefused) {
    // Rounds of one token take a block each: a context of 32 could need 32 blocks, the tables of a batch hold 6.
    const int32_t id = 9;
    Batch batch = engine_.batch();
    Status status;
    while (status.is_ok()) {
        ASSERT_LT(first_.tokens(), 8);
        batch.clear();
        first_.begin_round();
        need(batch.add({&first_, {&id, 1}, Rows::invariant}));
        status = batch.prepare();
    }
    EXPECT_EQ(status.error().code, ErrorCode::out_of_range);
    EXPECT_THAT(status.error().message, HasSubstr("a sequence of 7 KV blocks; the batch holds 6"));
    EXPECT_EQ(first_.tokens(), 6);
    EXPECT_EQ(engine_.pool->blocks_free(LayerGroup::upper), 2U);
}

TEST_F(BatchErrors, RowsAreLaidOutBulkFirstAndLogitsFoundByPart) {
    Batch batch = engine_.batch();
    need(batch.add({&first_, {three_.data(), 1}, Rows::invariant, Logits::last}));
    need(batch.add({&second_, three_, Rows::bulk, Logits::all}));
    need(batch.add({&third_, three_, Rows::bulk, Logits::none}));
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
