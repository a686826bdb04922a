// Rounds from a pool to the disk and back.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>

#include "tests/flip_bit.hpp"
#include "tests/memory/store/round_moving_fixture.hpp"

namespace rondo {
namespace {

using testing::RoundCase;
using testing::RoundMovingTest;

constexpr auto as_on_a_gpu = RoundCase::Device::stand_in_gpu, on_a_gpu = RoundCase::Device::gpu;

/// Keeps syncs back until the test lets them go, and counts the writes that are over.
class HeldSyncs : public DiskQueue {
public:
    explicit HeldSyncs(std::unique_ptr<DiskQueue> disk) : disk_(std::move(disk)) {}

    void submit(DiskWork work) override {
        if (work.kind == DiskWork::Kind::sync && holds) {
            held.push_back(std::move(work));
            return;
        }
        if (work.kind == DiskWork::Kind::write)
            work.done = [this, done = std::move(work.done)](Status status) {
                done(std::move(status));
                ++written;
            };
        disk_->submit(std::move(work));
    }
    Way way() const override { return disk_->way(); }
    void let_go() {
        holds = false;
        for (DiskWork& work : std::exchange(held, {})) disk_->submit(std::move(work));
    }

    bool holds = false;
    std::vector<DiskWork> held;
    std::atomic<int> written{0};

private:
    const std::unique_ptr<DiskQueue> disk_;
};

const auto name_of = [](const auto& of) { return testing::name_of_case(of.param); };
INSTANTIATE_TEST_SUITE_P(Rounds, RoundMovingTest,
                         ::testing::Values(RoundCase{DType::f32, 0, 1, false}, RoundCase{DType::bf16, 1, 1 << 20, true},
                                           RoundCase{DType::i8, 2, 10'000, false},
                                           // Read into the pool itself: a block of a layer is 64 KiB.
                                           RoundCase{DType::bf16, 1, 1 << 20, false, 512},
                                           RoundCase{DType::bf16, 2, 10'000, true, 512},
                                           RoundCase{DType::i8, 2, 10'000, false, 8, as_on_a_gpu},
                                           // Room for some records, and for all.
                                           RoundCase{DType::i8, 2, 10'000, false, 8, as_on_a_gpu, 40 << 10},
                                           RoundCase{DType::bf16, 1, 1 << 20, true, 8, as_on_a_gpu, 64 << 20}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(OnGpu, RoundMovingTest,
                         ::testing::Values(RoundCase{DType::i8, 2, 10'000, false, 8, on_a_gpu},
                                           RoundCase{DType::bf16, 1, 1 << 20, true, 8, on_a_gpu, 64 << 20}),
                         name_of);

TEST_P(RoundMovingTest, WhatWasWrittenComesBack) {
    const std::vector<int64_t> ends{20, 52, 84};
    const SequenceKv kv = sequence(ends);
    put(kv);
    put(kv);  // nothing is written twice
    wait_for_the_writer();
    const int groups = GetParam().lower_layers > 0 ? 2 : 1;
    EXPECT_EQ(copied_, 2);
    EXPECT_EQ(stored_, 2 * 3 * groups);
    EXPECT_EQ(store_->counts().written, 3 * groups);
    start();
    SequenceKv back(*pool_);
    back.plan_rounds(ends);
    EXPECT_EQ(bring_back(back, 84), 3U);
    EXPECT_EQ(contents(back), contents(kv));
    EXPECT_EQ(back.rounds(), 3);
}

/// Whoever changes a long round near its end has little of it written anew, and the round is still one.
TEST_P(RoundMovingTest, ALongRoundIsSeveralRecords) {
    const int64_t end = 20 + 2 * most_ + 256;
    const std::vector<int64_t> ends{20, end};
    const int groups = GetParam().lower_layers > 0 ? 2 : 1;
    const SequenceKv kv = sequence(ends);
    put(kv);
    wait_for_the_writer();
    EXPECT_EQ(store_->counts().written, (1 + 3) * groups);
    std::vector<int32_t> otherwise = ids_of(end);
    std::fill(otherwise.begin() + 20 + most_ + 100, otherwise.end(), 7);
    put(kv, otherwise);
    wait_for_the_writer();
    EXPECT_EQ(store_->counts().written, (1 + 3 + 2) * groups);
    start();
    for (const auto& ids : {ids_of(end), otherwise}) {
        SequenceKv back(*pool_);
        EXPECT_EQ(bring_back(back, ids), 1U + 3U);
        EXPECT_EQ(back.tokens(), end);
        EXPECT_EQ(back.rounds(), 2);
        EXPECT_EQ(contents(back), contents(kv));
    }
}

/// Nothing comes from a disk that could tell of the end.
TEST_P(RoundMovingTest, WithoutRoundsAReadingIsOverAtOnce) {
    SequenceKv kv(*pool_);
    std::vector<size_t> told;
    RoundReader::Job job{kv.share(), {}};
    job.over = [&told](size_t whole) { told.push_back(whole); };
    const RoundReader::Ticket ticket = reader_->read(std::move(job));
    EXPECT_EQ(told, std::vector<size_t>{0});
    reader_->cancel(ticket);
    EXPECT_EQ(told.size(), 1U) << "once";
}

/// "Yes." and "No." are rounds too, and what stands behind them is found.
TEST_P(RoundMovingTest, AShortRoundHoldsUpNothing) {
    const std::vector<int64_t> ends{1, 3, 64};
    const SequenceKv kv = sequence(ends);
    put(kv);
    wait_for_the_writer();
    SequenceKv back(*pool_);
    EXPECT_EQ(bring_back(back, 64), 3U);
    EXPECT_EQ(contents(back), contents(kv));
}

/// A round that ends where a record must end is one round if its end is known ahead.
TEST_P(RoundMovingTest, ARoundMayBeAsLongAsARecord) {
    const int64_t end = 2 * most_ + 76;
    put(sequence({most_, 2 * most_, end}));
    wait_for_the_writer();
    SequenceKv known(*pool_), unknown(*pool_);
    known.plan_rounds({most_, 2 * most_});
    EXPECT_EQ(bring_back(known, end), 3U);
    EXPECT_EQ(known.rounds(), 3);
    EXPECT_EQ(bring_back(unknown, end), 3U);
    EXPECT_EQ(unknown.rounds(), 1) << "nothing says where it ended";
    EXPECT_EQ(contents(unknown), contents(known));
}

TEST_P(RoundMovingTest, LayersAreThereWhenTheyAreSaidToBe) {
    const std::vector<int64_t> ends{32, 64, 96};
    const SequenceKv kv = sequence(ends);
    put(kv);
    wait_for_the_writer();
    start();
    SequenceKv back(*pool_);
    back.plan_rounds(ends);
    on_arrived_ = [&](int layers) {
        for (int layer = 0; layer < layers; ++layer) {
            const LayerGroup group = shape_.group_of(layer);
            for (size_t i = 0; i < kv.blocks(group).size(); ++i)
                EXPECT_EQ(block_of(back.blocks(group)[i], layer), block_of(kv.blocks(group)[i], layer));
        }
    };
    EXPECT_EQ(bring_back(back, 96), 3U);
    ASSERT_FALSE(layers_.empty());
    EXPECT_TRUE(std::ranges::is_sorted(layers_, std::ranges::less_equal()));
    EXPECT_EQ(layers_.back(), 3);
}

TEST_P(RoundMovingTest, OnlyWhatIsMissingIsWritten) {
    const std::vector<int64_t> ends{20, 68};
    SequenceKv kv = sequence(ends);
    put(kv);
    wait_for_the_writer();
    // As a cache leaves it that gave up the end: one block of the second round is there.
    SequenceKv back(*pool_);
    back.plan_rounds(ends);
    PerGroup<KvLease> blocks;
    for (const LayerGroup group : layer_groups)
        if (shape_.has(group)) blocks[group] = kv.share_blocks(group, 0, 3);
    back.attach(std::move(blocks), std::vector<int32_t>{16, 4, 16});
    EXPECT_EQ(bring_back(back, 70), 1U);
    EXPECT_EQ(back.tokens(), 68);
    EXPECT_EQ(back.rounds(), 2);
    EXPECT_EQ(contents(back), contents(kv));
}

/// Somebody goes on otherwise in the middle of a round.
TEST_P(RoundMovingTest, TheBeginningOfARoundIsFound) {
    const SequenceKv kv = sequence({20, 300});
    put(kv);
    wait_for_the_writer();
    start();
    SequenceKv back(*pool_);
    back.plan_rounds({20});
    EXPECT_EQ(bring_back(back, 200), 2U);
    ASSERT_EQ(back.tokens(), 20 + 128);
    const size_t blocks = 2 + 8;
    size_t compared = 0;
    std::vector<std::vector<std::byte>> stored;
    each_block(kv, [&](int, std::span<const std::byte> bytes) { stored.emplace_back(bytes.begin(), bytes.end()); });
    const size_t all = kv.blocks(LayerGroup::upper).size();
    size_t at = 0;
    each_block(back, [&](int layer, std::span<const std::byte> bytes) {
        const size_t block = at++ % blocks;
        std::vector<std::byte> expected = stored[static_cast<size_t>(layer) * all + block];
        if (block == 1) clear_unwritten(shape_.atom, shape_.kv_heads, 4, expected);
        EXPECT_TRUE(std::ranges::equal(bytes, expected)) << "layer " << layer << ", block " << block;
        ++compared;
    });
    EXPECT_EQ(compared, 3 * blocks);
    ASSERT_TRUE(back.extend(30));
    EXPECT_EQ(back.rounds(), 2) << "it is the same round that goes on";
}

/// The same ids are stored in several cuts, so records that begin elsewhere lead through the same places.
TEST_P(RoundMovingTest, TheBeginningOfARoundIsFoundAmongOthersThatBeginLater) {
    for (const std::vector<int64_t>& ends : std::vector<std::vector<int64_t>>{{64, 400}, {80, 400}, {96, 400}, {400}}) {
        put(sequence(ends));
        wait_for_the_writer();
    }
    for (const int64_t count : {130, 200, 260, 399}) {
        const std::vector<StoredRound> rounds = stored_rounds(*store_, shape_, space_, ids_of(count));
        ASSERT_FALSE(rounds.empty());
        int64_t end = 0;
        for (const StoredRound& round : rounds) {
            EXPECT_EQ(round.first_token, end);
            const std::vector<int32_t> ids = ids_of(count);
            EXPECT_TRUE(std::equal(round.ids.begin(), round.ids.end(), ids.begin() + round.first_token));
            end = round.end_token();
        }
        EXPECT_GT(end, count - 128);
        EXPECT_LE(end, count);
    }
}

TEST_P(RoundMovingTest, ASequenceThatIsCutOtherwiseGetsNothing) {
    put(sequence({20, 84}));
    wait_for_the_writer();
    SequenceKv back(*pool_);
    back.plan_rounds({20, 30, 84});
    keeps_plan_ = true;
    EXPECT_EQ(bring_back(back, 84), 1U);
}

TEST_P(RoundMovingTest, DamageCostsItsRoundAndWhatFollows) {
    const std::vector<int64_t> ends{20, 52, 84};
    put(sequence(ends));
    wait_for_the_writer();
    RecordPlace place;
    store_->index().each([&](const StoredRecord& record) {
        if (record.tokens_before == 20 && record.group == LayerGroup::upper) place = record.place;
    });
    close();
    for (const auto& entry : std::filesystem::directory_iterator(options_.path)) {
        if (Segments::number_of(entry.path().filename()) == 0) continue;
        testing::flip_bit(entry.path(), place.offset + place.bytes - disk_alignment + 1);
    }
    start();
    SequenceKv back(*pool_);
    back.plan_rounds(ends);
    EXPECT_EQ(bring_back(back, 84), 1U);
    EXPECT_TRUE(std::ranges::all_of(layers_, [](int layers) { return layers < 3; })) << "the last layer is damaged";
    EXPECT_EQ(store_->counts().damaged, 1);
    EXPECT_EQ(stored_rounds(*store_, shape_, space_, ids_of(84)).size(), 1U) << "it is not tried again";
}

TEST_P(RoundMovingTest, CancelledItEndsAndHoldsNothing) {
    const size_t free = pool_->blocks_free(LayerGroup::upper);
    put(sequence({20, 52, 84}));
    wait_for_the_writer();
    cancels_ = true;
    {
        SequenceKv back(*pool_);
        EXPECT_EQ(bring_back(back, 84), 0U);
    }
    // A thread of the disk's or the device's may be letting go of it.
    for (int i = 0; i < 5000 && !ticket_.expired(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        tasks_->run_all();
    }
    EXPECT_TRUE(ticket_.expired());
    EXPECT_EQ(pool_->blocks_free(LayerGroup::upper), free);
}

TEST_P(RoundMovingTest, GivenUpItLetsGoOfItsBlocks) {
    const size_t free = pool_->blocks_free(LayerGroup::upper);
    for (const bool begins : {false, true}) {
        put(sequence({20, 52, 84}));
        put(sequence({16, 52, 84}));
        if (begins)  // all layers of a record are copied, and on their way to the disk
            tasks_->run_until([&] { return store_->counts().bytes_written > 0; });
        writer_->give_up();
        wait_for_the_writer();
        EXPECT_EQ(pool_->blocks_free(LayerGroup::upper), free);
    }
    EXPECT_EQ(copied_, 4);
    put(sequence({20, 52, 84}));
    wait_for_the_writer();
    SequenceKv back(*pool_);
    EXPECT_EQ(bring_back(back, 84), 3U);
}

/// The disk is at a first record, so as many wait for it as are found together: the last sequence has not ended yet.
TEST_P(RoundMovingTest, WhatIsCopiedIsNotGivenUp) {
    auto made = std::make_unique<HeldSyncs>(std::move(queue_));
    HeldSyncs& disk = *made;
    queue_ = std::move(made);
    start();
    const int groups = GetParam().lower_layers > 0 ? 2 : 1, sequences = 32 / groups;
    const SequenceKv kv = sequence({20});
    const auto put_as = [&](int32_t first_id) {
        std::vector<int32_t> ids = ids_of(kv.tokens());
        ids.front() = first_id;
        put(kv, std::move(ids));
    };
    disk.holds = true;
    put_as(1);
    tasks_->run_until([&] { return disk.held.size() == 1; });
    for (int i = 0; i < sequences; ++i) put_as(2 + i);
    const int writes = (1 + sequences) * shape_.layers + groups;  // and the first one's headers
    for (int i = 0; i < 20'000 && disk.written < writes; ++i) {
        tasks_->run_all();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(disk.written, writes);
    tasks_->run_all();
    EXPECT_EQ(writer_->give_up(), 0);
    disk.let_go();
    wait_for_the_writer();
    EXPECT_EQ(store_->counts().written, (1 + sequences) * groups);
}

TEST_P(RoundMovingTest, ARefusedRoundEndsItsSequence) {
    options_.bytes_max = 40 << 10;
    start();
    put(sequence({20, 52, 400, 420}));
    wait_for_the_writer();
    EXPECT_EQ(copied_, 1);
    EXPECT_LE(store_->bytes(), options_.bytes_max);
    EXPECT_LT(store_->counts().written, 4 * 2);
    EXPECT_GT(std::accumulate(store_->counts().refused.begin(), store_->counts().refused.end(), int64_t{0}), 0);
}

}  // namespace
}  // namespace rondo
