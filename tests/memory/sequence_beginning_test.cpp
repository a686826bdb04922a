// Sequences that begin as others do, and how far they are exact.

#include <gtest/gtest.h>

#include "memory/sequence_kv.hpp"
#include "tests/memory/sequence_pool.hpp"

namespace rondo {
namespace {

using testing::begins;
using testing::FakeDevice;
using testing::make_sequence_pool;

using enum LayerGroup;

TEST(SequenceKv, AnotherMayBeginAsItDoes) {
    FakeDevice device;
    for (const int lower_layers : {0, 1, 3}) {
        const auto pool = make_sequence_pool(device, 12, lower_layers);
        const LayerGroup group = lower_layers == 3 ? lower : upper;
        SequenceKv kv(*pool);
        kv.plan_rounds({20, 84});
        ASSERT_TRUE(kv.extend(90));
        SequenceKv other(*pool);
        ASSERT_TRUE(other.set_aside(20));
        {
            SequenceKv beginning = kv.beginning(52, {20});
            beginning.take_set_aside(other);
            EXPECT_EQ(other.blocks_set_aside(group), 0);
            EXPECT_EQ(begins(beginning, group), (std::vector<int32_t>{0, 16, 20, 36, 52}));
            EXPECT_EQ(beginning.rounds(), 2);
            const size_t free = pool->blocks_free(group);
            ASSERT_TRUE(beginning.extend(20));
            EXPECT_EQ(pool->blocks_free(group), free) << "what was set aside is enough";
            EXPECT_EQ(beginning.rounds(), 2) << "the round goes on";
            for (size_t i = 0; i < 4; ++i) EXPECT_EQ(beginning.blocks(group)[i], kv.blocks(group)[i]);
            EXPECT_NE(beginning.blocks(group)[4], kv.blocks(group)[4]) << "what follows is its own";
        }
        EXPECT_EQ(kv.beginning(0, {}).tokens(), 0);
        EXPECT_EQ(kv.beginning(90, {}).rounds(), 2) << "that one ended at 84 is not known";
        EXPECT_EQ(kv.beginning(90, {84}).rounds(), 3);
        EXPECT_EQ(pool->blocks_free(group), 12U - 7U);
    }
}

TEST(SequenceKv, KeepsOfWhatIsSetAsideWhatItNeeds) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 12);
    SequenceKv kv(*pool);
    ASSERT_TRUE(kv.set_aside(10 * kv_block_tokens));
    ASSERT_TRUE(kv.extend(20));
    kv.keep_set_aside(30);  // 12 in the block that is begun
    for (const LayerGroup group : layer_groups) {
        EXPECT_EQ(kv.blocks_set_aside(group), 2);
        EXPECT_EQ(pool->blocks_free(group), 12U - 4U);
    }
    kv.keep_set_aside(1000);
    EXPECT_EQ(kv.blocks_set_aside(LayerGroup::upper), 2);
}

TEST(SequenceKv, KnowsHowFarItIsExact) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 12);
    SequenceKv kv(*pool);
    ASSERT_TRUE(kv.extend(40));
    EXPECT_EQ(kv.exact_tokens(), 40);
    kv.truncate(32);
    ASSERT_TRUE(kv.extend(8));
    EXPECT_EQ(kv.exact_tokens(), 40) << "nobody said that it goes on otherwise";
    kv.go_on_inexactly();
    ASSERT_TRUE(kv.extend(40));
    EXPECT_EQ(kv.exact_tokens(), 40);
    kv.take_as_exact(56);  // from elsewhere
    EXPECT_EQ(kv.exact_tokens(), 56);
    EXPECT_EQ(kv.share().exact_tokens(), 56);
    EXPECT_EQ(kv.beginning(48, {}).exact_tokens(), 48);
    EXPECT_EQ(kv.beginning(64, {}).exact_tokens(), 56);
    kv.set_back(48);
    ASSERT_TRUE(kv.extend(16));
    EXPECT_EQ(kv.exact_tokens(), 48) << "what did not come is computed";
}

TEST(SequenceKv, GoesOnAsExactlyAsTheOneThatItReplaces) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 24);
    SequenceKv first(*pool), second(*pool);
    ASSERT_TRUE(first.extend(48));
    first.go_on_inexactly(40);
    second.go_on_inexactly(60);  // behind its prompt
    SequenceKv exact = first.beginning(32, {});
    exact.go_on_as(second);
    ASSERT_TRUE(exact.extend(40));
    EXPECT_EQ(exact.exact_tokens(), 60);
    SequenceKv inexact = first.beginning(48, {});
    inexact.go_on_as(second);
    ASSERT_TRUE(inexact.extend(24));
    EXPECT_EQ(inexact.exact_tokens(), 40) << "behind inexact keys nothing is exact";
    SequenceKv longer = first.beginning(32, {});
    second = SequenceKv(*pool);
    second.go_on_inexactly();
    longer.go_on_as(second);
    ASSERT_TRUE(longer.extend(16));
    EXPECT_EQ(longer.exact_tokens(), 32);
}

TEST(SequenceKv, IsAsExactWhenTheSameKeysAreComputedAgain) {
    FakeDevice device;
    const auto pool = make_sequence_pool(device, 12);
    SequenceKv kv(*pool);
    ASSERT_TRUE(kv.extend(40));
    kv.go_on_inexactly(100);  // behind its prompt
    ASSERT_TRUE(kv.extend(40));
    kv.begin_again(40);
    EXPECT_EQ(kv.exact_tokens(), 40);
    EXPECT_EQ(kv.blocks_set_aside(LayerGroup::upper), 2);
    ASSERT_TRUE(kv.extend(72));
    EXPECT_EQ(kv.exact_tokens(), 100);
    kv.begin_again(104);
    EXPECT_EQ(kv.exact_tokens(), 100) << "no more than that";
}

}  // namespace
}  // namespace rondo
