#include <set>
#include <string>

#include "tests/memory/prefix_cache_fixture.hpp"

namespace rondo {
namespace {

using testing::PrefixCacheTest;

TEST_F(PrefixCacheTest, TellsWhatItKeeps) {
    SequenceKv rounds(*pool);
    ASSERT_TRUE(rounds.extend(5).is_ok());
    rounds.begin_round();
    ASSERT_TRUE(rounds.extend(20).is_ok());
    cache->insert("t\nlines", ids(25), rounds, Exactness::sparse);
    cache->insert("t", ids(16), computed(16), Exactness::exact);
    const PrefixName first = name_of_block(name_of_space("t\nlines"), ids(5));
    const PrefixName second = name_of_block(first, ids(16, 5));
    const std::vector<PrefixCache::Kept> expected{
        {first, 5, KvPlace::device, Exactness::sparse},
        {second, 21, KvPlace::device, Exactness::sparse},
        {name_of_block(second, ids(4, 21)), 25, KvPlace::device, Exactness::sparse}};
    EXPECT_EQ(cache->kept("t\nlines", ids(30)), expected);
    ASSERT_EQ(cache->kept("t", ids(30)).size(), 1U);
    EXPECT_EQ(cache->kept("t", ids(30))[0].exactness, Exactness::exact);
    EXPECT_TRUE(cache->kept("u", ids(30)).empty());
}

TEST_F(PrefixCacheTest, AskingWhatIsKeptIsNoUseOfIt) {
    cache->insert("t", ids(32, 1000), computed(32), Exactness::exact);
    cache->insert("t", ids(32, 2000), computed(32), Exactness::exact);
    EXPECT_EQ(cache->kept("t", ids(32, 1000)).size(), 2U);
    EXPECT_TRUE(cache->make_room({30, 30}));
    EXPECT_TRUE(cache->kept("t", ids(32, 1000)).empty());
    EXPECT_EQ(cache->kept("t", ids(32, 2000)).size(), 2U);
}

/// Names are those of the blocks' first ids alone, so that different blocks share them.
PrefixName name_of_first(const PrefixName& before, std::span<const int32_t> ids) {
    return {before.low + static_cast<uint64_t>(ids[0]), before.high};
}

TEST_F(PrefixCacheTest, BlocksOfOneNameAreToldApartByTheirIds) {
    cache = std::make_unique<PrefixCache>(*pool, name_of_first);
    std::vector<int32_t> other = ids(48);
    other[20] = 7;
    cache->insert("t", ids(48), computed(48), Exactness::exact);
    EXPECT_EQ(cache->match("t", other, 48).tokens(), 16) << "its second block has another's name";
    SequenceKv kv = cache->match("t", other, 16);
    ASSERT_TRUE(kv.extend(32).is_ok());
    cache->insert("t", other, kv, Exactness::exact);
    EXPECT_EQ(cache->blocks(), 3) << "the first of a name stays, and nothing is stored behind the other one";
    EXPECT_EQ(cache->match("t", other, 48).tokens(), 16);
    EXPECT_EQ(cache->match("t", ids(48), 48).tokens(), 48);
    kv = SequenceKv(*pool);
    ASSERT_TRUE(cache->make_room({32, 32}));
    kv = computed(48);
    cache->insert("t", other, kv, Exactness::exact);
    EXPECT_EQ(cache->match("t", other, 48).tokens(), 48) << "the name is free again";
    EXPECT_EQ(cache->match("t", ids(48), 48).tokens(), 16);
}

/// Equal ids and one name do not do either: what came before must be the same.
TEST_F(PrefixCacheTest, BlocksOfOneNameAreToldApartByWhatCameBefore) {
    cache = std::make_unique<PrefixCache>(*pool, [](const PrefixName&, std::span<const int32_t> ids) {
        return PrefixName{static_cast<uint64_t>(ids[0]), 0};
    });
    std::vector<int32_t> all = ids(16, 100);
    for (const int32_t id : ids(16)) all.push_back(id);
    cache->insert("t", all, computed(32), Exactness::exact);
    EXPECT_EQ(cache->match("t", ids(16), 16).tokens(), 0);
    EXPECT_EQ(cache->match("u", all, 32).tokens(), 0) << "the space is what came before the first";
    cache->insert("u", all, computed(32), Exactness::exact);
    EXPECT_EQ(cache->name_spaces(), 1);
    EXPECT_EQ(cache->blocks(), 2);
    EXPECT_EQ(free(), 30U) << "what is not stored goes back to the pool";
}

TEST_F(PrefixCacheTest, KeepsNothingOfASequenceThatIsNotWhole) {
    SequenceKv kv(*pool);
    ASSERT_TRUE(kv.extend(16).is_ok());
    kv.begin_round();
    ASSERT_TRUE(kv.extend(16).is_ok());
    kv.release_round(LayerGroup::upper, 0);
    cache->insert("t", ids(32), kv, Exactness::exact);
    cache->insert_full("t", ids(32), kv, Exactness::exact);
    SequenceKv window = computed(32);
    window.release_before(16);
    cache->insert("t", ids(32), window, Exactness::exact);
    EXPECT_EQ(cache->blocks(), 0);
    ASSERT_TRUE(kv.take_round(LayerGroup::upper, 0).is_ok());
    cache->insert("t", ids(32), kv, Exactness::exact);
    EXPECT_EQ(cache->match("t", ids(32), 32).tokens(), 32);
}

/// Clients name budgets, so there may be any number of name spaces over time.
TEST_F(PrefixCacheTest, TenThousandNameSpacesKeepApartAndAreForgottenWithTheirBlocks) {
    constexpr int spaces = 10'000;
    const KvShape shape{.layers = 2, .lower_layers = 1, .kv_heads = 1, .atom = {DType::f32, 4}};
    const auto large = std::move(KvPool::create(device, shape, {spaces, spaces})).value();
    PrefixCache many(*large);
    const auto space = [](int number) { return "tenant\nmethod\n" + std::to_string(number); };
    for (int number = 0; number < spaces; ++number) {
        SequenceKv kv(*large);
        ASSERT_TRUE(kv.extend(16).is_ok());
        many.insert(space(number), ids(16), kv, Exactness::sparse);
    }
    EXPECT_EQ(many.blocks(), spaces);
    EXPECT_EQ(many.name_spaces(), spaces);
    std::set<int32_t> blocks;
    for (int number = 0; number < spaces; ++number) {
        const SequenceKv found = many.match(space(number), ids(16), 16);
        ASSERT_EQ(found.tokens(), 16);
        blocks.insert(found.blocks(LayerGroup::upper)[0]);
    }
    EXPECT_EQ(std::ssize(blocks), spaces) << "each has its own";
    many.claim(1, space(spaces + 1), ids(16));
    EXPECT_EQ(many.name_spaces(), spaces + 1);
    ASSERT_TRUE(many.make_room({spaces - 1, spaces - 1}));
    EXPECT_EQ(many.name_spaces(), 2) << "the one used last, and the one that is waited for";
    many.forget_claim(1);
    EXPECT_EQ(many.name_spaces(), 1);
    EXPECT_EQ(many.match(space(spaces - 1), ids(16), 16).tokens(), 16);
    many.insert(space(7), {}, SequenceKv(*large), Exactness::sparse);
    EXPECT_EQ(many.name_spaces(), 1);
}

}  // namespace
}  // namespace rondo
