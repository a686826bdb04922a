#include "memory/kv_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include "tests/memory/fake_device.hpp"

namespace rondo {
namespace {

using testing::FakeDevice;

const KvShape small{.layers = 5, .lower_layers = 2, .kv_heads = 3, .atom = {DType::bf16, 8}};
using enum LayerGroup;

std::unique_ptr<KvPool> make_pool(Device& device, size_t blocks, const KvShape& shape = small) {
    auto pool = KvPool::create(device, shape, {blocks, blocks});
    EXPECT_TRUE(pool) << (pool ? "" : pool.error().message);
    return std::move(pool).value();
}

TEST(KvPool, AllocatesOnceForEachGroupAndGivesItBack) {
    FakeDevice device;
    {
        const auto pool = make_pool(device, 10);
        EXPECT_EQ(device.allocations(), 2);
        EXPECT_EQ(device.bytes(), 10 * (small.block_bytes(lower) + small.block_bytes(upper)));
        auto lease = pool->acquire(upper, 10);
        ASSERT_TRUE(lease);
        EXPECT_EQ(device.allocations(), 2);
    }
    EXPECT_EQ(device.live(), 0);
}

TEST(KvPool, LeavesItsStorageUntouched) {
    FakeDevice device;
    const auto pool = make_pool(device, 10);
    auto lease = pool->acquire(lower, 4);
    for (const auto& [layer, bytes] :
         {std::pair(0, small.block_bytes(lower)), std::pair(2, small.block_bytes(upper))}) {
        const auto* storage = reinterpret_cast<const unsigned char*>(pool->layer(layer).base);
        EXPECT_TRUE(std::all_of(storage, storage + 10 * bytes, [](auto byte) { return byte == FakeDevice::pattern; }));
    }
}

struct Expected {
    const std::byte* stretch;
    size_t from, to;
    bool operator==(const Expected&) const = default;
};

class NotingDevice : public FakeDevice {
public:
    void expect_pool(std::byte* stretch, size_t from, size_t to) override { expected.push_back({stretch, from, to}); }
    std::vector<Expected> expected;
};

TEST(KvPool, TellsTheDeviceWhatIsTakenForTheFirstTime) {
    NotingDevice device;
    const auto pool = make_pool(device, 10);
    const size_t bytes = small.kv_heads * small.atom.bytes();
    const auto of_layers = [&](size_t from, size_t to) {
        std::vector<Expected> all;
        for (const int layer : {2, 3, 4}) all.push_back({pool->layer(layer).base, from * bytes, to * bytes});
        return all;
    };
    auto first = std::move(pool->acquire(upper, 3)).value();
    EXPECT_EQ(std::exchange(device.expected, {}), of_layers(0, 3));
    first.truncate(1);
    auto second = std::move(pool->acquire(upper, 2)).value();
    EXPECT_TRUE(device.expected.empty());
    second.truncate(0);
    ASSERT_TRUE(pool->extend(second, 6));
    EXPECT_EQ(std::exchange(device.expected, {}), of_layers(3, 7));
    EXPECT_FALSE(pool->extend(second, 4));
    EXPECT_TRUE(device.expected.empty());
}

TEST(KvPool, GivesBackWhatItHadWhenAnAllocationFails) {
    for (const int nth : {1, 2}) {
        FakeDevice device(nth);
        const auto pool = KvPool::create(device, small, {10, 10});
        ASSERT_FALSE(pool) << nth;
        EXPECT_EQ(pool.error().code, ErrorCode::out_of_memory);
        EXPECT_EQ(device.live(), 0);
    }
}

TEST(KvPool, RefusesShapesOutOfRangeBeforeAllocating) {
    struct Case {
        const char* field;
        KvShape shape;
        PerGroup<size_t> blocks;
    };
    constexpr size_t size_max = std::numeric_limits<size_t>::max();
    constexpr int int_max = std::numeric_limits<int>::max();
    const Case cases[] = {
        {"layers", {0, 0, 1, {DType::f32, 4}}, {1, 1}},
        {"layers", {int_max, 0, 1, {DType::f32, 4}}, {1, 1}},
        {"lower_layers", {4, -1, 1, {DType::f32, 4}}, {1, 1}},
        {"lower_layers", {4, 5, 1, {DType::f32, 4}}, {1, 1}},
        {"kv_heads", {4, 0, 0, {DType::f32, 4}}, {1, 1}},
        {"kv_heads", {4, 0, int_max, {DType::f32, 4}}, {1, 1}},
        {"head_dim", {4, 0, 1, {DType::f32, 0}}, {1, 1}},
        {"head_dim", {4, 0, 1, {DType::f32, int_max}}, {1, 1}},
        {"dtype", {4, 0, 1, {DType::q4_0, 32}}, {1, 1}},
        {"blocks of the upper layers", {4, 0, 1, {DType::f32, 4}}, {1, 0}},
        {"blocks of the lower layers", {4, 4, 1, {DType::f32, 4}}, {0, 1}},
        {"blocks of the lower layers", {4, 2, 1, {DType::f32, 4}}, {0, 1}},
        {"blocks of the upper layers", {4, 2, 1, {DType::f32, 4}}, {1, 0}},
        {"blocks of the upper layers", {4, 0, 1, {DType::f32, 4}}, {1, size_max}},
        {"blocks of the lower layers", {4, 2, 1, {DType::f32, 4}}, {size_t{1} << 27, 1}},
    };
    for (const Case& test : cases) {
        FakeDevice device;
        const auto pool = KvPool::create(device, test.shape, test.blocks);
        ASSERT_FALSE(pool) << test.field;
        EXPECT_NE(pool.error().message.find(test.field), std::string::npos) << pool.error().message;
        EXPECT_EQ(device.allocations(), 0);
    }
}

TEST(KvPool, RefusesSizesThatOverflow) {
    FakeDevice device;
    const KvShape huge{1024, 0, 1024, {DType::f32, 512}};
    const auto pool = KvPool::create(device, huge, {0, (size_t{1} << 27) - 1});
    ASSERT_FALSE(pool);
    EXPECT_EQ(pool.error().code, ErrorCode::out_of_range);
    // Each token of each atom has a number of 32 bits.
    const KvShape shape{1024, 0, 1024, {DType::i8, 1}};
    EXPECT_EQ(KvPool::create(device, shape, {0, (1 << 7) - 1}).error().code, ErrorCode::out_of_memory);
    const auto larger = KvPool::create(device, shape, {0, 1 << 7});
    ASSERT_FALSE(larger);
    EXPECT_EQ(larger.error().code, ErrorCode::out_of_range);
    EXPECT_NE(larger.error().message.find("memory.device_kv_mib must be at most"), std::string::npos);
}

TEST(KvPool, GroupWithoutLayersHasNoStorageAndNoBlocks) {
    FakeDevice device;
    KvShape shape = small;
    shape.lower_layers = 0;
    const auto pool = make_pool(device, 10, shape);
    EXPECT_EQ(device.allocations(), 1);
    EXPECT_EQ(pool->blocks_total(lower), 0U);
    EXPECT_TRUE(pool->acquire(lower, 0));
    const auto lease = pool->acquire(lower, 1);
    ASSERT_FALSE(lease);
    EXPECT_EQ(lease.error().code, ErrorCode::out_of_memory);
}

TEST(KvPool, EachGroupHasItsOwnNumberOfBlocks) {
    FakeDevice device;
    const auto pool = std::move(KvPool::create(device, small, {10, 3})).value();
    EXPECT_EQ(device.bytes(), 10 * small.block_bytes(lower) + 3 * small.block_bytes(upper));
    EXPECT_EQ(pool->blocks_total(lower), 10U);
    EXPECT_EQ(pool->blocks_total(upper), 3U);
    EXPECT_EQ(pool->blocks_total(), 13U);
    EXPECT_EQ(pool->blocks_free(), 13U);
    const auto lease = pool->acquire(upper, 3);
    ASSERT_TRUE(lease);
    EXPECT_EQ(pool->blocks_free(), 10U);
    EXPECT_FALSE(pool->acquire(upper, 1));
    EXPECT_TRUE(pool->acquire(lower, 10));
}

TEST(KvPool, CountsBlocksOfGroupsThatHaveLayers) {
    KvShape shape = small;
    EXPECT_EQ(shape.blocks_of_each(3), (BlockCounts{3, 3}));
    EXPECT_EQ(shape.blocks_of_each(3).sum(), 6);
    shape.lower_layers = 0;
    EXPECT_EQ(shape.blocks_of_each(3), (BlockCounts{0, 3}));
    shape.lower_layers = shape.layers;
    EXPECT_EQ(shape.blocks_of_each(3), (BlockCounts{3, 0}));
}

TEST(KvPool, AGroupsFirstLayerIsTheOneBehindTheOtherGroup) {
    for (int lower_layers = 0; lower_layers <= small.layers; ++lower_layers) {
        KvShape shape = small;
        shape.lower_layers = lower_layers;
        EXPECT_EQ(shape.first_layer(lower), 0);
        EXPECT_EQ(shape.first_layer(upper), lower_layers);
        for (int layer = 0; layer < shape.layers; ++layer) {
            const int within = layer - shape.first_layer(shape.group_of(layer));
            EXPECT_TRUE(within >= 0 && within < shape.layers_in(shape.group_of(layer))) << lower_layers;
        }
    }
}

TEST(KvPool, BlocksOfALayerLieOneAfterAnother) {
    FakeDevice device;
    const auto pool = make_pool(device, 7);
    // Every atom of every layer, head and block of a group: together they tile the group's storage exactly.
    for (const LayerGroup group : {lower, upper}) {
        std::set<const std::byte*> atoms;
        const int first = group == lower ? 0 : small.lower_layers;
        for (int layer = first; layer < first + small.layers_in(group); ++layer) {
            const KvLayer view = pool->layer(layer);
            EXPECT_EQ(view.block_stride, static_cast<size_t>(small.kv_heads) * small.atom.bytes());
            EXPECT_EQ(view.heads, small.kv_heads);
            for (int block = 0; block < 7; ++block)
                for (int head = 0; head < view.heads; ++head) {
                    atoms.insert(view.at(block, head));
                    const auto atom = static_cast<size_t>(pool->atom_index(block, layer, head));
                    EXPECT_EQ(pool->atoms(group) + atom * small.atom.bytes(), view.at(block, head));
                }
        }
        EXPECT_EQ(atoms.size() * small.atom.bytes(), 7 * small.block_bytes(group));
        EXPECT_EQ(*atoms.rbegin() - *atoms.begin() + static_cast<ptrdiff_t>(small.atom.bytes()),
                  static_cast<ptrdiff_t>(7 * small.block_bytes(group)));
        EXPECT_EQ(*atoms.begin(), pool->layer(first).base);
    }
}

TEST(KvPool, TakesAllOrNothing) {
    FakeDevice device;
    const auto pool = make_pool(device, 10);
    auto first = pool->acquire(upper, 7);
    ASSERT_TRUE(first);
    for (const size_t count : {size_t{4}, size_t{11}, std::numeric_limits<size_t>::max()}) {
        const auto second = pool->acquire(upper, count);
        ASSERT_FALSE(second);
        EXPECT_EQ(second.error().code, ErrorCode::out_of_memory);
        EXPECT_EQ(second.error().message,
                  "KV pool: " + std::to_string(count) + " blocks of the upper layers asked for, 3 of 10 are free");
        EXPECT_FALSE(pool->extend(*first, count));
        EXPECT_EQ(first->blocks().size(), 7U);
        EXPECT_EQ(pool->blocks_free(upper), 3U);
    }
    EXPECT_EQ(pool->blocks_free(lower), 10U);
    EXPECT_TRUE(pool->extend(*first, 3));
    EXPECT_EQ(pool->blocks_free(upper), 0U);
}

TEST(KvPool, FillsFromTheStartAndReusesWarmBlocksInOrder) {
    FakeDevice device;
    const auto pool = make_pool(device, 10);
    auto lease = pool->acquire(upper, 4);
    const std::vector<int32_t> expected{0, 1, 2, 3};
    EXPECT_TRUE(std::ranges::equal(lease->blocks(), expected));
    *lease = KvLease();
    EXPECT_TRUE(std::ranges::equal(pool->acquire(upper, 4)->blocks(), expected));
}

TEST(KvPool, SharedBlocksAreFreeWhenTheLastLeaseIsGone) {
    FakeDevice device;
    const auto pool = make_pool(device, 10);
    auto owner = std::move(pool->acquire(upper, 6)).value();
    auto part = owner.share(2, 3);
    const int32_t block = part.blocks()[0];
    EXPECT_EQ(block, owner.blocks()[2]);
    EXPECT_EQ(pool->references(upper, block), 2);
    owner = KvLease();
    EXPECT_EQ(pool->blocks_free(upper), 7U);
    EXPECT_EQ(pool->references(upper, block), 1);
    part.truncate(0);
    EXPECT_EQ(pool->blocks_free(upper), 10U);
    EXPECT_EQ(pool->references(upper, block), 0);
}

TEST(KvPool, EmptyAndMovedFromLeasesAreHarmless) {
    FakeDevice device;
    const auto pool = make_pool(device, 10);
    KvLease none;
    EXPECT_TRUE(none.share().blocks().empty());
    none.truncate(0);
    auto lease = std::move(pool->acquire(lower, 3)).value();
    none.append(std::move(lease));
    EXPECT_EQ(none.blocks().size(), 3U);
    EXPECT_TRUE(lease.blocks().empty());
    none.append(KvLease());
    KvLease& self = none;
    none = std::move(self);
    EXPECT_EQ(none.blocks().size(), 3U);
    EXPECT_EQ(pool->blocks_free(lower), 7U);
}

TEST(KvPool, LeasesMayBeDroppedByAnyThread) {
    FakeDevice device;
    const auto pool = make_pool(device, 64);
    auto shared = std::move(pool->acquire(upper, 16)).value();
    const auto work = [&](uint32_t seed, KvLease mine) {
        std::mt19937 random(seed);
        for (int i = 0; i < 2000; ++i) {
            KvLease copy = mine.share(random() % 8, random() % 8);
            auto own = pool->acquire(upper, random() % 12);
            if (own) copy.append(std::move(own).value());
            if (pool->extend(copy, random() % 3)) copy.truncate(random() % 10);
        }
    };
    {
        std::vector<std::jthread> threads;
        for (uint32_t seed = 0; seed < 4; ++seed) threads.emplace_back(work, seed, shared.share());
    }
    EXPECT_EQ(pool->blocks_free(upper), 48U);
    for (const int32_t block : shared.blocks()) EXPECT_EQ(pool->references(upper, block), 1);
    shared.truncate(0);
    EXPECT_EQ(pool->blocks_free(upper), 64U);
}

TEST(KvPoolDeathTest, ALeaseThatOutlivesItsPoolIsABug) {
    EXPECT_DEATH(
        {
            FakeDevice device;
            KvLease lease;
            const auto pool = make_pool(device, 4);
            lease = std::move(pool->acquire(upper, 1)).value();
        },
        "outlived");
}

}  // namespace
}  // namespace rondo
