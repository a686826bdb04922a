#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "memory/prefix_cache.hpp"
#include "tests/memory/fake_device.hpp"

namespace rondo::testing {

/// A prefix cache over a pool of 32 blocks in each of two groups.
class PrefixCacheTest : public ::testing::Test {
protected:
    PrefixCacheTest() {
        const KvShape shape{.layers = 3, .lower_layers = 1, .kv_heads = 1, .atom = {DType::f32, 4}};
        pool = std::move(KvPool::create(device, shape, {32, 32})).value();
        cache = std::make_unique<PrefixCache>(*pool);
    }

    static std::vector<int32_t> ids(int64_t count, int32_t first = 0) {
        std::vector<int32_t> all(static_cast<size_t>(count));
        std::iota(all.begin(), all.end(), first);
        return all;
    }
    SequenceKv computed(int64_t tokens) {
        SequenceKv kv(*pool);
        EXPECT_TRUE(kv.extend(tokens).is_ok());
        return kv;
    }
    size_t free() const { return pool->blocks_free(LayerGroup::upper); }

    FakeDevice device;
    std::unique_ptr<KvPool> pool;
    std::unique_ptr<PrefixCache> cache;
};

}  // namespace rondo::testing
