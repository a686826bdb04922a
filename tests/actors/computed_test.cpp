// What a turn hands over to the cache is the turn's no more, whenever the cache comes to it.

#include "actors/computed.hpp"

#include <gtest/gtest.h>

#include "tests/actors/turn_fixture.hpp"

namespace rondo {
namespace {

class ComputedTest : public ::testing::Test {
protected:
    static constexpr size_t blocks = 8;
    /// Of 41 ids, the last of which has no key.
    Turn turn() {
        Turn made = testing::make_bare_turn(runtime_, 7, std::vector<int32_t>(41, 1), 20);
        made.conversation = {{"t", "c"}, 3, 1};
        made.space = "t";
        return made;
    }
    size_t free() const { return runtime_->pool->blocks_free(LayerGroup::upper); }

    const RuntimePtr runtime_ = testing::small_runtime(blocks);
};

/// The turn may be asked for, cancelled and handed over again while the cache still works on what it had.
TEST_F(ComputedTest, TheTurnHasNoneOfItAnyMore) {
    Turn gives_way = turn();
    ASSERT_TRUE(gives_way.kv.extend(40));
    gives_way.computed = {.tokens = 20.0, .seconds = 2.0};
    const std::vector<int32_t> held(gives_way.kv.blocks(LayerGroup::upper).begin(),
                                    gives_way.kv.blocks(LayerGroup::upper).end());
    ComputedPtr computed = computed_by(gives_way);
    ASSERT_NE(computed, nullptr);
    EXPECT_EQ(gives_way.kv.tokens(), 0);
    EXPECT_EQ(gives_way.missing(), 41);
    EXPECT_EQ(computed_by(gives_way), nullptr) << "it is handed over once";
    EXPECT_EQ(computed->kv.tokens(), 40);
    EXPECT_EQ(computed->ids, std::vector<int32_t>(40, 1));
    EXPECT_EQ(computed->conversation.number, 3U);
    EXPECT_EQ(computed->conversation.cuts, 1U);
    EXPECT_EQ(computed->space, PrefixSpace("t"));
    EXPECT_FALSE(computed->is_answer);
    EXPECT_DOUBLE_EQ(computed->computed.seconds, 2.0);
    EXPECT_DOUBLE_EQ(computed->computed.tokens, 20.0);
    for (const int32_t block : held) EXPECT_EQ(runtime_->pool->references(LayerGroup::upper, block), 1);
    EXPECT_EQ(free(), blocks - held.size());
    computed.reset();
    EXPECT_EQ(free(), blocks);
}

TEST_F(ComputedTest, BlocksWithoutKeysGoBackAtOnce) {
    Turn waits = turn();
    ASSERT_TRUE(waits.kv.set_aside(41));
    ASSERT_LT(free(), blocks);
    EXPECT_EQ(computed_by(waits), nullptr);
    EXPECT_EQ(free(), blocks);
}

}  // namespace
}  // namespace rondo
