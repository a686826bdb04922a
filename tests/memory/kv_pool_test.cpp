#include "memory/kv_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
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
    EXPECT_EQ(pool.error().code, ErrorCode::out_of_memory);
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
    const auto lease = pool->acquire(upper, 3);
    ASSERT_TRUE(lease);
    EXPECT_FALSE(pool->acquire(upper, 1));
    EXPECT_TRUE(pool->acquire(lower, 10));
}

TEST(KvPool, CountsBlocksOfGroupsThatHaveLayers) {
    KvShape shape = small;
    EXPECT_EQ(shape.blocks_of_each(3), (BlockCounts{3, 3}));
    shape.lower_layers = 0;
    EXPECT_EQ(shape.blocks_of_each(3), (BlockCounts{0, 3}));
    shape.lower_layers = shape.layers;
    EXPECT_EQ(shape.blocks_of_each(3), (BlockCounts{3, 0}));
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

/// What the pool should look like, kept the naive way: each lease is a list of ids, a block's references are counted
/// anew.
class PoolModel {
public:
    PoolModel(uint32_t seed, size_t blocks) : random_(seed), blocks_(blocks), pool_(make_pool(device_, blocks)) {}

    void run(int steps) {
        for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) {
            step();
            check();
        }
        leases_.clear();
        copies_.clear();
        check();
        EXPECT_EQ(pool_->blocks_free(lower), blocks_);
        EXPECT_EQ(pool_->blocks_free(upper), blocks_);
    }

private:
    size_t below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random_); }

    void add(KvLease lease, std::vector<int32_t> copy) {
        leases_.push_back(std::move(lease));
        copies_.push_back(std::move(copy));
    }

    /// Blocks that were free must come; they are new to the model, so they are read from the lease and judged by
    /// `check`.
    void note(KvLease& lease, std::vector<int32_t>& copy, size_t count) {
        const auto ids = lease.blocks();
        ASSERT_EQ(ids.size(), copy.size() + count);
        const auto used = references(lease.group());
        for (size_t i = copy.size(); i < ids.size(); ++i)
            ASSERT_FALSE(used.contains(ids[i])) << "block given out twice";
        copy.assign(ids.begin(), ids.end());
    }

    void step() {
        const size_t count = below(6);
        if (leases_.empty() || below(4) == 0) {
            const LayerGroup group = below(2) == 0 ? lower : upper;
            const size_t free = pool_->blocks_free(group);
            auto lease = pool_->acquire(group, count);
            ASSERT_EQ(lease.is_ok(), count <= free);
            if (!lease) return;
            std::vector<int32_t> copy;
            note(*lease, copy, count);
            add(std::move(lease).value(), std::move(copy));
            return;
        }
        const size_t at = below(leases_.size()), other = below(leases_.size());
        KvLease& lease = leases_[at];
        std::vector<int32_t>& copy = copies_[at];
        switch (below(8)) {
            case 0: {
                const bool fits = count <= pool_->blocks_free(lease.group());
                ASSERT_EQ(pool_->extend(lease, count).is_ok(), fits);
                if (fits) note(lease, copy, count);
                break;
            }
            case 1: {
                const size_t first = below(copy.size() + 1), length = below(copy.size() - first + 1);
                add(lease.share(first, length), {copy.begin() + static_cast<ptrdiff_t>(first),
                                                 copy.begin() + static_cast<ptrdiff_t>(first + length)});
                break;
            }
            case 2:
                lease.truncate(count);
                copy.resize(std::min(copy.size(), count));
                break;
            case 3:
                leases_.erase(leases_.begin() + static_cast<ptrdiff_t>(at));
                copies_.erase(copies_.begin() + static_cast<ptrdiff_t>(at));
                break;
            case 4:
                if (at == other || lease.group() != leases_[other].group()) break;
                lease.append(std::move(leases_[other]));
                copy.insert(copy.end(), copies_[other].begin(), copies_[other].end());
                copies_[other].clear();
                break;
            case 5:
                if (at == other) break;
                leases_[other] = std::move(lease);
                copies_[other] = std::exchange(copy, {});
                leases_.erase(leases_.begin() + static_cast<ptrdiff_t>(at));
                copies_.erase(copies_.begin() + static_cast<ptrdiff_t>(at));
                break;
            case 6: {
                const size_t first = below(copy.size() + 1), length = below(copy.size() - first + 1);
                lease.drop(first, length);
                copy.erase(copy.begin() + static_cast<ptrdiff_t>(first),
                           copy.begin() + static_cast<ptrdiff_t>(first + length));
                break;
            }
            case 7: {
                if (at == other || lease.group() != leases_[other].group()) break;
                const size_t place = below(copy.size() + 1);
                lease.insert(place, std::move(leases_[other]));
                copy.insert(copy.begin() + static_cast<ptrdiff_t>(place), copies_[other].begin(), copies_[other].end());
                copies_[other].clear();
                break;
            }
        }
    }

    std::map<int32_t, int> references(LayerGroup group) const {
        std::map<int32_t, int> counts;
        for (size_t i = 0; i < leases_.size(); ++i)
            if (leases_[i].group() == group)
                for (const int32_t block : copies_[i]) ++counts[block];
        return counts;
    }

    void check() const {
        for (size_t i = 0; i < leases_.size(); ++i) ASSERT_TRUE(std::ranges::equal(leases_[i].blocks(), copies_[i]));
        for (const LayerGroup group : {lower, upper}) {
            const auto counts = references(group);
            ASSERT_EQ(pool_->blocks_free(group), blocks_ - counts.size());
            for (int32_t block = 0; block < static_cast<int32_t>(blocks_); ++block) {
                const auto found = counts.find(block);
                ASSERT_EQ(pool_->references(group, block), found == counts.end() ? 0 : found->second);
            }
        }
    }

    std::mt19937 random_;
    size_t blocks_;
    FakeDevice device_;
    std::unique_ptr<KvPool> pool_;
    std::vector<KvLease> leases_;
    std::vector<std::vector<int32_t>> copies_;
};

TEST(KvPool, AgreesWithANaiveModelOverRandomSteps) {
    for (uint32_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        PoolModel(seed, seed % 2 == 0 ? 24 : 64).run(400);
        if (HasFailure()) return;
    }
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
