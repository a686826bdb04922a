#include "memory/sequence_kv.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "tests/counting_allocator.hpp"
#include "tests/memory/sequence_pool.hpp"

namespace rondo {
namespace {

using testing::begins;
using testing::FakeDevice;
using testing::make_sequence_pool;

using enum LayerGroup;

TEST(SequenceKv, StartsEmpty) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 4);
    const SequenceKv kv(*pool);
    EXPECT_EQ(kv.tokens(), 0);
    EXPECT_EQ(kv.rounds(), 0);
    EXPECT_EQ(begins(kv), std::vector<int32_t>{0});
    EXPECT_TRUE(kv.blocks(upper).empty());
    EXPECT_TRUE(kv.is_whole());
}

TEST(SequenceKv, FillsABlockBeforeTakingTheNext) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 8);
    SequenceKv kv(*pool);
    ASSERT_TRUE(kv.extend(15));
    EXPECT_EQ(begins(kv), (std::vector<int32_t>{0, 15}));
    ASSERT_TRUE(kv.extend(1));
    EXPECT_EQ(begins(kv), (std::vector<int32_t>{0, 16}));
    ASSERT_TRUE(kv.extend(33));
    EXPECT_EQ(begins(kv), (std::vector<int32_t>{0, 16, 32, 48, 49}));
    EXPECT_EQ(kv.blocks(lower).size(), 4U);
    EXPECT_EQ(kv.blocks(upper).size(), 4U);
    EXPECT_EQ(kv.slot(upper, 17), kv.blocks(upper)[1] * 16 + 1);
}

TEST(SequenceKv, ARoundStartsOnAFreshBlock) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 8);
    SequenceKv kv(*pool);
    kv.begin_round();
    ASSERT_TRUE(kv.extend(5));
    kv.begin_round();
    kv.begin_round();
    EXPECT_EQ(kv.rounds(), 1);
    ASSERT_TRUE(kv.extend(20));
    EXPECT_EQ(begins(kv), (std::vector<int32_t>{0, 5, 21, 25}));
    EXPECT_EQ(kv.rounds(), 2);
    EXPECT_EQ(kv.round_begin(1), 5);
    EXPECT_EQ(kv.slot(lower, 5) % 16, 0);
}

TEST(SequenceKv, ACutAtARoundsFirstKeyOpensThatRoundAgain) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 8);
    SequenceKv kv(*pool);
    ASSERT_TRUE(kv.extend(5));
    kv.begin_round();
    ASSERT_TRUE(kv.extend(3));
    kv.truncate(5);
    EXPECT_EQ(kv.rounds(), 1);
    ASSERT_TRUE(kv.extend(1));
    EXPECT_EQ(begins(kv), (std::vector<int32_t>{0, 5, 6}));
    kv.truncate(4);
    ASSERT_TRUE(kv.extend(1));
    EXPECT_EQ(begins(kv), (std::vector<int32_t>{0, 5})) << "a cut inside a round lets it go on in its block";
    EXPECT_EQ(kv.rounds(), 1);
}

TEST(SequenceKv, SharedKeysStayWhatTheyWereAndGoBackOnce) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 8);
    {
        SequenceKv kv(*pool);
        ASSERT_TRUE(kv.extend(5));
        kv.begin_round();
        ASSERT_TRUE(kv.extend(20));
        const SequenceKv shared = kv.share();
        const auto blocks = [](const SequenceKv& of) {
            return std::vector<int32_t>(of.blocks(upper).begin(), of.blocks(upper).end());
        };
        const std::vector<int32_t> before = blocks(kv);
        ASSERT_TRUE(kv.extend(10));
        kv.truncate(3);
        EXPECT_EQ(shared.tokens(), 25);
        EXPECT_EQ(shared.rounds(), 2);
        EXPECT_EQ(begins(shared), (std::vector<int32_t>{0, 5, 21, 25}));
        EXPECT_EQ(blocks(shared), before);
        for (const LayerGroup group : {lower, upper}) EXPECT_EQ(pool->blocks_free(group), 5U);
        kv = SequenceKv(*pool);
        for (const LayerGroup group : {lower, upper}) EXPECT_EQ(pool->blocks_free(group), 5U);
    }
    for (const LayerGroup group : {lower, upper}) EXPECT_EQ(pool->blocks_free(group), 8U);
}

TEST(SequenceKv, SharedKeysAreThoseThatAreHeldAndAreNotWrittenBehind) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 8);
    SequenceKv kv(*pool);
    ASSERT_TRUE(kv.extend(40));
    kv.release_before(20);
    SequenceKv shared = kv.share();
    EXPECT_EQ(shared.first_held(), 16);
    EXPECT_EQ(begins(shared), begins(kv));
    ASSERT_TRUE(shared.extend(1));
    EXPECT_NE(shared.slot(upper, 40), kv.slot(upper, 39) + 1) << "a block of its own";
}

TEST(SequenceKv, ExtendIsAllOrNothingOverBothGroups) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 8);
    SequenceKv kv(*pool);
    ASSERT_TRUE(kv.extend(10));
    kv.begin_round();
    for (const LayerGroup group : layer_groups) {
        auto other = std::move(pool->acquire(group, 6)).value();
        const Status status = kv.extend(17);
        ASSERT_FALSE(status);
        EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
        EXPECT_EQ(begins(kv), (std::vector<int32_t>{0, 10}));
        EXPECT_EQ(kv.rounds(), 1);
        EXPECT_EQ(pool->blocks_free(lower) + pool->blocks_free(upper), 8U);
    }
    ASSERT_TRUE(kv.extend(17));
    EXPECT_EQ(begins(kv), (std::vector<int32_t>{0, 10, 26, 27})) << "the round asked for before still begins";
}

TEST(SequenceKv, RefusesCountsOutOfRange) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 8);
    SequenceKv kv(*pool);
    ASSERT_TRUE(kv.extend(1));
    for (const int64_t count :
         {int64_t{-1}, int64_t{1} << 24, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
        const Status status = kv.extend(count);
        ASSERT_FALSE(status) << count;
        EXPECT_EQ(status.error().code, ErrorCode::out_of_range);
    }
    EXPECT_EQ(kv.extend((1 << 24) - 1).error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(kv.tokens(), 1);
}

TEST(SequenceKv, AGroupWithoutLayersHasNoBlocks) {
    FakeDevice device;
    for (const int lower_layers : {0, 3}) {
        const auto pool = make_sequence_pool(device, 8, lower_layers);
        const LayerGroup empty = lower_layers == 0 ? lower : upper, full = lower_layers == 0 ? upper : lower;
        SequenceKv kv(*pool);
        kv.reserve(100);
        ASSERT_TRUE(kv.extend(40));
        EXPECT_TRUE(kv.blocks(empty).empty());
        EXPECT_EQ(kv.blocks(full).size(), 3U);
        EXPECT_EQ(begins(kv, full), (std::vector<int32_t>{0, 16, 32, 40}));
        EXPECT_EQ(begins(kv, empty), (std::vector<int32_t>{0}));
        EXPECT_EQ(kv.tokens(), 40);
        EXPECT_EQ(kv.tokens(full), 40);
        EXPECT_EQ(kv.tokens(empty), 0);
        EXPECT_EQ(kv.blocks_for(9)[full], 1);
        EXPECT_EQ(kv.blocks_for(9)[empty], 0);
        EXPECT_TRUE(kv.is_whole());
        kv.truncate(3);
        EXPECT_EQ(kv.blocks(full).size(), 1U);
    }
}

TEST(SequenceKv, GivesItsBlocksBackOnceEvenWhenMoved) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 8);
    {
        SequenceKv kv(*pool);
        ASSERT_TRUE(kv.extend(40));
        const SequenceKv moved = std::move(kv);
        EXPECT_EQ(moved.tokens(), 40);
        EXPECT_EQ(pool->blocks_free(upper), 5U);
    }
    EXPECT_EQ(pool->blocks_free(upper), 8U);
    EXPECT_EQ(pool->blocks_free(lower), 8U);
}

TEST(SequenceKv, ExtendWithinTheReserveAllocatesNothing) {
    for (uint32_t seed = 1; seed <= 50; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        FakeDevice device;
        const auto pool = make_sequence_pool(device, 2000);
        std::mt19937 random(seed);
        SequenceKv kv(*pool);
        const int64_t reserved = 1 + random() % 1000;
        kv.reserve(reserved);
        for (int step = 0; step < 300; ++step) {
            switch (random() % 4) {
                case 0:
                    kv.begin_round();
                    break;
                case 1:
                    kv.truncate(static_cast<int64_t>(random()) % (kv.tokens() + 1));
                    break;
                default: {
                    const int64_t count = static_cast<int64_t>(random() % 30) % (reserved - kv.tokens() + 1);
                    const int64_t before = testing::allocations();
                    const bool done = kv.extend(count).is_ok();
                    const int64_t made = testing::allocations() - before;
                    ASSERT_TRUE(done);
                    ASSERT_EQ(made, 0) << "at step " << step;
                }
            }
        }
    }
}

TEST(SequenceKv, TheAllocationCounterCounts) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 8);
    SequenceKv kv(*pool);
    const int64_t before = testing::allocations();
    ASSERT_TRUE(kv.extend(1));
    EXPECT_GT(testing::allocations(), before) << "without a reserve the tables must grow";
}

/// One entry a key: the round and the block (by its place in the sequence) it is in. Slow and obvious.
struct NaiveSequence {
    struct Key {
        int64_t round;
        int64_t block;
        int64_t offset;
    };
    std::vector<Key> keys;
    bool fresh = true;

    void extend(int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
            Key key{0, 0, 0};
            if (!keys.empty()) {
                key = keys.back();
                key.round += fresh ? 1 : 0;
                const bool next_block = fresh || key.offset == 15;
                key.block += next_block ? 1 : 0;
                key.offset = next_block ? 0 : key.offset + 1;
            }
            keys.push_back(key);
            fresh = false;
        }
    }
    void truncate(int64_t tokens) {
        const auto at = static_cast<size_t>(tokens);
        if (at == keys.size()) return;
        fresh = at == 0 || keys[at].round != keys[at - 1].round;
        keys.resize(at);
    }
    int64_t blocks() const { return keys.empty() ? 0 : keys.back().block + 1; }
    int64_t blocks_after(int64_t count) const {
        NaiveSequence copy = *this;
        copy.extend(count);
        return copy.blocks();
    }
};

void expect_same(const SequenceKv& kv, const NaiveSequence& naive, const KvPool& pool) {
    ASSERT_EQ(kv.tokens(), static_cast<int64_t>(naive.keys.size()));
    ASSERT_EQ(kv.rounds(), naive.keys.empty() ? 0 : naive.keys.back().round + 1);
    ASSERT_TRUE(kv.is_whole());
    for (const LayerGroup group : layer_groups) {
        ASSERT_EQ(kv.tokens(group), kv.tokens());
        ASSERT_EQ(std::ssize(kv.block_begin(group)), naive.blocks() + 1);
        ASSERT_EQ(kv.block_begin(group).front(), 0);
        ASSERT_EQ(kv.block_begin(group).back(), kv.tokens());
        ASSERT_EQ(static_cast<int64_t>(kv.blocks(group).size()), naive.blocks());
        std::set<int32_t> slots;
        for (int64_t token = 0; token < kv.tokens(); ++token) {
            const auto& key = naive.keys[static_cast<size_t>(token)];
            const int32_t slot = kv.slot(group, token);
            ASSERT_TRUE(slots.insert(slot).second) << "two keys in slot " << slot;
            ASSERT_EQ(slot % 16, key.offset);
            ASSERT_EQ(slot / 16, kv.blocks(group)[static_cast<size_t>(key.block)]);
            if (key.offset == 0) {
                ASSERT_EQ(kv.block_begin(group)[static_cast<size_t>(key.block)], token);
            }
            if (token == 0 || naive.keys[static_cast<size_t>(token - 1)].round != key.round) {
                ASSERT_EQ(kv.round_begin(key.round), token);
                ASSERT_EQ(kv.round_begin(group, key.round), token);
            }
        }
        ASSERT_LE(kv.blocks(group).size() + pool.blocks_free(group), pool.blocks_total(group));
    }
}

TEST(SequenceKv, AgreesWithANaiveModelOverRandomSteps) {
    for (uint32_t seed = 1; seed <= 60 && !HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        FakeDevice device;
        const auto pool = make_sequence_pool(device, 30);
        std::mt19937 random(seed);
        {
            std::vector<SequenceKv> sequences;
            for (int i = 0; i < 3; ++i) sequences.emplace_back(*pool);
            std::vector<NaiveSequence> naive(3);
            for (int step = 0; step < 150 && !HasFailure(); ++step) {
                const size_t at = random() % 3;
                SequenceKv& kv = sequences[at];
                switch (random() % 5) {
                    case 0:
                        kv.begin_round();
                        naive[at].fresh = true;
                        break;
                    case 1: {
                        const int64_t tokens = static_cast<int64_t>(random()) % (kv.tokens() + 1);
                        kv.truncate(tokens);
                        naive[at].truncate(tokens);
                        break;
                    }
                    default: {
                        const auto count = static_cast<int64_t>(random() % 60);
                        int64_t free = 30;
                        for (const NaiveSequence& each : naive) free -= each.blocks();
                        const bool fits = naive[at].blocks_after(count) - naive[at].blocks() <= free;
                        ASSERT_EQ(kv.extend(count).is_ok(), fits);
                        if (fits) naive[at].extend(count);
                    }
                }
                expect_same(kv, naive[at], *pool);
            }
        }
        EXPECT_EQ(pool->blocks_free(lower), 30U);
        EXPECT_EQ(pool->blocks_free(upper), 30U);
    }
}

TEST(SequenceKv, RoundsEndWhereTheyArePlannedTo) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 16);
    SequenceKv kv(*pool);
    kv.plan_rounds({20, 52});
    EXPECT_EQ(kv.blocks_for(60), (BlockCounts{5, 5}));
    ASSERT_TRUE(kv.set_aside(60));
    ASSERT_TRUE(kv.extend(60));
    EXPECT_EQ(kv.rounds(), 3);
    EXPECT_EQ(begins(kv), (std::vector<int32_t>{0, 16, 20, 36, 52, 60}));
}

TEST(SequenceKv, SetBackItKeepsItsBlocks) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 6);
    SequenceKv kv(*pool);
    kv.plan_rounds({20, 52});
    ASSERT_TRUE(kv.set_aside(60));
    ASSERT_TRUE(kv.extend(60));
    kv.set_back(20);
    EXPECT_EQ(kv.rounds(), 1);
    EXPECT_EQ(pool->blocks_free(upper), 1U);
    SequenceKv other(*pool);
    ASSERT_TRUE(other.extend(16));
    EXPECT_TRUE(kv.extend(40)) << "nobody else could take them";
    EXPECT_EQ(begins(kv), (std::vector<int32_t>{0, 16, 20, 36, 52, 60}));
}

}  // namespace
}  // namespace rondo
