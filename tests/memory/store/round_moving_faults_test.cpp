// Rounds of which a copy or a read fails on their way.

#include <gtest/gtest.h>

#include "tests/memory/store/bad_sectors.hpp"
#include "tests/memory/store/round_moving_fixture.hpp"

namespace rondo {
namespace {

using testing::RoundCase;

constexpr auto as_on_a_gpu = RoundCase::Device::stand_in_gpu;

class RoundMovingFaults : public testing::RoundMovingTest {
protected:
    RoundMovingFaults() {
        auto sectors = std::make_unique<testing::BadSectors>(std::move(queue_));
        sectors_ = sectors.get();
        queue_ = std::move(sectors);
    }
    int groups() const { return GetParam().lower_layers > 0 ? 2 : 1; }
    static std::vector<int32_t> ids_from(int32_t first, int64_t count) {
        std::vector<int32_t> ids = ids_of(count);
        ids.front() = first;
        return ids;
    }

    /// As a history that is resent: many rounds, of which more than two batches of records are written.
    static constexpr int64_t many = 70, tokens_each = 4;
    SequenceKv many_rounds() {
        std::vector<int64_t> ends;
        for (int64_t r = 1; r <= many; ++r) ends.push_back(r * tokens_each);
        return sequence(ends);
    }
    /// Lets the header fail of this record, of the first ones that are found together.
    void fail_header(int record) {
        sectors_->writes_left = batch / groups() * shape_.layers + record;  // behind the layers of all of them
    }
    size_t stored_of(const std::vector<int32_t>& ids) { return stored_rounds(*store_, shape_, space_, ids).size(); }
    void expect_no_record_behind_nothing() {
        store_->index().each([&](const StoredRecord& record) {
            EXPECT_TRUE(record.tokens_before == 0 || store_->index().find(record.before) != nullptr)
                << "behind " << record.tokens_before << " tokens";
        });
    }

    static constexpr int batch = 32;  // records that are committed together
    const std::vector<int64_t> ends_{20, 52, 84};
    testing::BadSectors* sectors_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Rounds, RoundMovingFaults,
                         ::testing::Values(RoundCase{DType::f32, 0, 1, false, 8, as_on_a_gpu},
                                           RoundCase{DType::i8, 2, 10'000, false, 8, as_on_a_gpu},
                                           RoundCase{DType::bf16, 1, 1 << 20, true, 8, as_on_a_gpu, 16 << 20}),
                         [](const auto& of) { return testing::name_of_case(of.param); });

/// The end of a copy that the device cannot tell is an error of that record alone, at each of the first layers.
TEST_P(RoundMovingFaults, ARecordWhoseCopyIsNotToldOfEndsOnce) {
    auto* const gpu = dynamic_cast<testing::StandInGpu*>(device_.get());
    ASSERT_NE(gpu, nullptr);
    const SequenceKv kv = sequence(ends_);
    const size_t free = pool_->blocks_free(LayerGroup::upper);
    for (int at = 0; at < 3; ++at) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(at));
        const auto failing = ids_from(1000 + at, 84), whole = ids_from(2000 + at, 84);
        const int layers = GetParam().lower_layers > 0 ? GetParam().lower_layers : 3;  // of the first record
        const int before = at < layers ? 0 : 1;                                        // records before the failing one
        const int copied = copied_, stored = stored_;
        gpu->store_notifies_left = at;
        put(kv, failing);
        put(kv, whole);
        wait_for_the_writer();
        EXPECT_EQ(gpu->store_notifies_left, -1) << "one has failed";
        EXPECT_EQ(copied_, copied + 2);
        EXPECT_EQ(stored_, stored + before + 3 * groups());
        EXPECT_TRUE(writer_->idle());
        EXPECT_EQ(pool_->blocks_free(LayerGroup::upper), free);
        EXPECT_TRUE(stored_rounds(*store_, shape_, space_, failing).empty());
        SequenceKv back(*pool_);
        back.plan_rounds(ends_);
        EXPECT_EQ(bring_back(back, whole), 3U);
        EXPECT_EQ(contents(back), contents(kv));
    }
}

/// Two sequences begin alike, and one write of theirs fails: a layer's, or a header's. What is written behind the
/// record of another one, which was on its way then, would be found by nobody.
TEST_P(RoundMovingFaults, NothingIsStoredBehindWhatHasFailed) {
    const SequenceKv kv = sequence(ends_);
    const int64_t pieces = 2 * 3 * (shape_.layers + groups());  // that would be written of both without the other one
    for (int at = 0; at < pieces; ++at) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(at));
        const auto one = ids_from(1000 + at, 84);
        std::vector<int32_t> other = one;
        other[30] = 7;  // in the second round
        sectors_->writes_left = at;
        put(kv, one);
        put(kv, other);
        wait_for_the_writer();
        expect_no_record_behind_nothing();
        if (at == 0) {
            EXPECT_TRUE(stored_rounds(*store_, shape_, space_, one).size() <= 1);
            EXPECT_EQ(stored_rounds(*store_, shape_, space_, other).size(), 3U) << "the disk is well again";
        }
        sectors_->writes_left = -1;
    }
}

/// One record of a batch fails, and the disk is well again. The rest of its sequence would be found by nobody: none of
/// it is written, and the writer goes on with the next sequence.
TEST_P(RoundMovingFaults, TheWriterGoesOnBehindABatchThatHasFailed) {
    const SequenceKv kv = many_rounds();
    const size_t free = pool_->blocks_free(LayerGroup::upper);
    for (const int failing : {0, 10}) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, std::to_string(failing));
        const auto one = ids_from(1000 + failing, kv.tokens()), other = ids_from(2000 + failing, kv.tokens());
        const int copied = copied_, stored = stored_, refused = sectors_->refused;
        fail_header(failing);
        put(kv, one);
        put(kv, other);
        ASSERT_NO_FATAL_FAILURE(wait_for_the_writer());
        EXPECT_EQ(sectors_->refused, refused + 1) << "one has failed";
        EXPECT_EQ(copied_, copied + 2);
        EXPECT_EQ(pool_->blocks_free(LayerGroup::upper), free);
        expect_no_record_behind_nothing();
        EXPECT_EQ(stored_of(one), static_cast<size_t>(failing / groups()));
        EXPECT_EQ(stored_of(other), static_cast<size_t>(many));
        const int lost = (batch - failing) / groups();  // of the batch: the failing record's group from there on
        EXPECT_EQ(stored_, stored + batch - lost + static_cast<int>(many) * groups());
        put(kv, one);
        ASSERT_NO_FATAL_FAILURE(wait_for_the_writer());
        EXPECT_EQ(stored_of(one), static_cast<size_t>(many)) << "as soon as it is put again";
    }
}

/// As above, but more of the sequence is written before it is known that the batch has failed.
TEST_P(RoundMovingFaults, TheWriterGoesOnBehindABatchThatFailsMeanwhile) {
    const SequenceKv kv = many_rounds();
    const size_t free = pool_->blocks_free(LayerGroup::upper);
    const auto one = ids_from(1000, kv.tokens()), other = ids_from(2000, kv.tokens());
    fail_header(0);
    put(kv, one);
    ASSERT_NO_FATAL_FAILURE(tasks_->run_until([this] { return sectors_->refused == 1; }));
    put(kv, other);  // the writer looks for work: the next record of the first sequence
    ASSERT_NO_FATAL_FAILURE(wait_for_the_writer());
    EXPECT_EQ(copied_, 2);
    EXPECT_EQ(pool_->blocks_free(LayerGroup::upper), free);
    expect_no_record_behind_nothing();
    EXPECT_EQ(stored_of(one), 0U);
    EXPECT_EQ(stored_of(other), static_cast<size_t>(many));
    put(kv, one);
    ASSERT_NO_FATAL_FAILURE(wait_for_the_writer());
    EXPECT_EQ(stored_of(one), static_cast<size_t>(many)) << "as soon as it is put again";
}

TEST_P(RoundMovingFaults, WhatADiskCannotReadIsWrittenElsewhere) {
    const SequenceKv kv = sequence(ends_);
    put(kv);
    wait_for_the_writer();
    start();
    RecordPlace bad;
    store_->index().each([&](const StoredRecord& record) {
        if (record.tokens_before == 20 && record.group == LayerGroup::upper) bad = record.place;
    });
    sectors_->bad = [segment = Segments::name_of(bad.segment), byte = bad.offset + bad.bytes - 1](
                        const std::string& file, uint64_t begin, uint64_t end) {
        return file == segment && begin <= byte && byte < end;
    };
    const auto rounds_back = [&](bool whole) {
        SequenceKv back(*pool_);
        back.plan_rounds(ends_);
        const size_t rounds = bring_back(back, 84);
        if (whole) {
            EXPECT_EQ(contents(back), contents(kv));
        }
        return rounds;
    };
    EXPECT_EQ(rounds_back(false), 1U);
    EXPECT_EQ(store_->counts().damaged, 1);
    put(kv);  // as after the turn that has computed it again
    wait_for_the_writer();
    start();
    EXPECT_EQ(rounds_back(true), 3U);
    EXPECT_EQ(store_->counts().damaged, 0);
}

}  // namespace
}  // namespace rondo
