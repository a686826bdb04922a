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
    rounds.go_on_inexactly(5);
    const PrefixSpace lines("t", "lines");
    cache->insert(lines, ids(25), rounds);
    const PrefixName first = name_of_block(name_of_space("t"), ids(5));
    const std::vector<PrefixCache::Kept> kept = cache->kept(lines, ids(30));
    ASSERT_EQ(kept.size(), 3U);
    EXPECT_EQ(kept[0], (PrefixCache::Kept{first, 5, KvPlace::device, Exactness::exact}));
    EXPECT_NE(kept[1].name, name_of_block(first, ids(16, 5))) << "that is the name of what is exact";
    EXPECT_EQ(kept[1].tokens, 21);
    EXPECT_EQ(kept[1].exactness, Exactness::sparse);
    EXPECT_EQ(kept[2].name, name_of_block(kept[1].name, ids(4, 21)));
    EXPECT_EQ(cache->kept("t", ids(30)), (std::vector{kept[0]}));
    EXPECT_TRUE(cache->kept("u", ids(30)).empty());
}

TEST_F(PrefixCacheTest, AskingWhatIsKeptIsNoUseOfIt) {
    cache->insert("t", ids(32, 1000), computed(32));
    cache->insert("t", ids(32, 2000), computed(32));
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
    cache->insert("t", ids(48), computed(48));
    EXPECT_EQ(cache->match("t", other, 48).tokens(), 16) << "its second block has another's name";
    SequenceKv kv = cache->match("t", other, 16);
    ASSERT_TRUE(kv.extend(32).is_ok());
    cache->insert("t", other, kv);
    EXPECT_EQ(cache->blocks(), 3) << "the first of a name stays, and nothing is stored behind the other one";
    EXPECT_EQ(cache->match("t", other, 48).tokens(), 16);
    EXPECT_EQ(cache->match("t", ids(48), 48).tokens(), 48);
    kv = SequenceKv(*pool);
    ASSERT_TRUE(cache->make_room({32, 32}));
    kv = computed(48);
    cache->insert("t", other, kv);
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
    cache->insert("t", all, computed(32));
    EXPECT_EQ(cache->match("t", ids(16), 16).tokens(), 0);
    EXPECT_EQ(cache->match("u", all, 32).tokens(), 0) << "the space is what came before the first";
    cache->insert("u", all, computed(32));
    EXPECT_EQ(cache->tenants(), 1);
    EXPECT_EQ(cache->blocks(), 2);
    EXPECT_EQ(free(), 30U) << "what is not stored goes back to the pool";
}

TEST_F(PrefixCacheTest, KeepsNothingOfASequenceThatIsNotWhole) {
    SequenceKv kv(*pool);
    ASSERT_TRUE(kv.extend(16).is_ok());
    kv.begin_round();
    ASSERT_TRUE(kv.extend(16).is_ok());
    kv.release_round(LayerGroup::upper, 0);
    cache->insert("t", ids(32), kv);
    cache->insert_full("t", ids(32), kv);
    SequenceKv window = computed(32);
    window.release_before(16);
    cache->insert("t", ids(32), window);
    EXPECT_EQ(cache->blocks(), 0);
    ASSERT_TRUE(kv.take_round(LayerGroup::upper, 0).is_ok());
    cache->insert("t", ids(32), kv);
    EXPECT_EQ(cache->match("t", ids(32), 32).tokens(), 32);
}

/// What is exact is every method's; what a method computed is its own, and nothing exact stands behind it.
TEST_F(PrefixCacheTest, MethodsShareWhatIsExact) {
    const PrefixSpace lines("t", "lines"), other("t", "other");
    cache->insert("t", ids(32), computed(32));
    SequenceKv kv = cache->match(lines, ids(64), 64);
    ASSERT_EQ(kv.tokens(), 32);
    EXPECT_EQ(kv.exact_tokens(), 32);
    kv.go_on_inexactly();
    ASSERT_TRUE(kv.extend(32).is_ok());
    EXPECT_EQ(kv.exact_tokens(), 32);
    cache->claim(1, lines, ids(64));
    cache->claim(2, other, ids(64));
    cache->insert(lines, ids(64), kv);
    EXPECT_EQ(cache->blocks(), 4) << "the exact beginning lies there once";
    EXPECT_EQ(cache->claimed(1), 64);
    EXPECT_EQ(cache->claimed(2), 32) << "what another method computed is no use";
    const SequenceKv again = cache->match(lines, ids(64), 64);
    EXPECT_EQ(again.tokens(), 64);
    EXPECT_EQ(again.exact_tokens(), 32);
    EXPECT_EQ(cache->match("t", ids(64), 64).tokens(), 32);
    EXPECT_EQ(cache->match(other, ids(64), 64).tokens(), 32);
    EXPECT_EQ(cache->match({"u", "lines"}, ids(64), 64).tokens(), 0);
    // Where both lead as far, the exact one is taken.
    cache->insert("t", ids(64), computed(64));
    EXPECT_EQ(cache->blocks(), 6);
    EXPECT_EQ(cache->match(lines, ids(64), 64).exact_tokens(), 64);
    EXPECT_EQ(cache->claimed(2), 64);
    EXPECT_EQ(cache->spaces_of("t"), (std::vector<PrefixSpace>{{"t"}, lines, other}));
}

/// Clients name budgets, so there may be any number of methods over time.
TEST_F(PrefixCacheTest, TenThousandMethodsKeepApartAndAreForgottenWithTheirBlocks) {
    constexpr int methods = 10'000;
    const KvShape shape{.layers = 2, .lower_layers = 1, .kv_heads = 1, .atom = {DType::f32, 4}};
    const auto large = std::move(KvPool::create(device, shape, {methods, methods})).value();
    PrefixCache many(*large);
    const auto space = [](int number) { return PrefixSpace("tenant", "method\n" + std::to_string(number)); };
    for (int number = 0; number < methods; ++number) {
        SequenceKv kv(*large);
        kv.go_on_inexactly();
        ASSERT_TRUE(kv.extend(16).is_ok());
        many.insert(space(number), ids(16), kv);
    }
    EXPECT_EQ(many.blocks(), methods);
    EXPECT_EQ(std::ssize(many.spaces_of("tenant")), methods);
    std::set<int32_t> blocks;
    for (int number = 0; number < methods; ++number) {
        const SequenceKv found = many.match(space(number), ids(16), 16);
        ASSERT_EQ(found.tokens(), 16);
        blocks.insert(found.blocks(LayerGroup::upper)[0]);
    }
    EXPECT_EQ(std::ssize(blocks), methods) << "each has its own";
    many.claim(1, space(methods + 1), ids(16));
    EXPECT_EQ(std::ssize(many.spaces_of("tenant")), methods + 1);
    ASSERT_TRUE(many.make_room({methods - 1, methods - 1}));
    EXPECT_EQ(std::ssize(many.spaces_of("tenant")), 2) << "the one used last, and the one that is waited for";
    many.forget_claim(1);
    EXPECT_EQ(many.spaces_of("tenant"), std::vector{space(methods - 1)});
    EXPECT_EQ(many.match(space(methods - 1), ids(16), 16).tokens(), 16);
    many.insert(space(7), {}, SequenceKv(*large));
    EXPECT_EQ(std::ssize(many.spaces_of("tenant")), 1);
    EXPECT_EQ(many.forget("tenant", ids(16)), 16);
    EXPECT_EQ(many.tenants(), 0);
}

}  // namespace
}  // namespace rondo
