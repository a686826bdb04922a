#include "memory/store/kv_bytes.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kernels/backend.hpp"

namespace rondo {
namespace {

struct Shape {
    DType dtype;
    int lower_layers;
};

class KvBytes : public ::testing::TestWithParam<Shape> {
protected:
    static constexpr int layers = 3, heads = 2, d = 8;
    static constexpr size_t blocks = 6;

    KvBytes() {
        std::mt19937 random(1);
        for (const LayerGroup group : layer_groups) {
            if (!pool_->shape().has(group)) continue;
            const size_t bytes = blocks * static_cast<size_t>(pool_->atoms_each_block(group)) * atom().bytes();
            for (size_t i = 0; i < bytes; ++i) pool_->atoms(group)[i] = static_cast<std::byte>(1 + random() % 255);
        }
    }
    KvAtom atom() const { return pool_->shape().atom; }
    void wait(StreamId stream) { ASSERT_TRUE(device_->drain(stream)); }
    /// The bytes of one key of a head: its key, its value, its scales.
    std::vector<std::byte> key_bytes(const std::byte* atom_bytes, int slot) const {
        const size_t number = traits(atom().dtype).block_bytes, half = atom().half_bytes();
        std::vector<std::byte> bytes;
        const auto put = [&](size_t at, size_t count) {
            bytes.insert(bytes.end(), atom_bytes + at, atom_bytes + at + count);
        };
        const auto t = static_cast<size_t>(slot);
        put(t * d * number, d * number);
        for (size_t c = 0; c < d; ++c) {
            const size_t element = atom().dtype == DType::bf16 ? t / 2 * 2 * d + 2 * c + t % 2 : t * d + c;
            put(half + element * number, number);
        }
        if (atom().dtype == DType::i8)
            for (const size_t part : {size_t{0}, kv_block_tokens * sizeof(float)})
                put(atom().scales_offset() + part + t * sizeof(float), sizeof(float));
        return bytes;
    }

    const std::unique_ptr<Device> device_ = open_device({DeviceKind::cpu, 0, 1}).value();
    const std::unique_ptr<KvPool> pool_ = KvPool::create(*device_,
                                                         KvShape{.layers = layers,
                                                                 .lower_layers = GetParam().lower_layers,
                                                                 .kv_heads = heads,
                                                                 .atom = {GetParam().dtype, d}},
                                                         {blocks, blocks})
                                              .value();
};

/// Whatever fills the last block, each key comes back as it was, and nothing that was not written goes along.
TEST_P(KvBytes, KeysComeBackAndNothingElseGoesAlong) {
    const std::vector<int32_t> from = {4, 1, 3}, to = {0, 5, 2};
    const size_t block_bytes = heads * atom().bytes();
    for (int64_t tokens = 33; tokens <= 48; ++tokens) {
        for (int layer = 0; layer < layers; ++layer) {
            std::vector<std::byte> bytes(bytes_of_layer(*pool_, from.size()));
            ASSERT_EQ(bytes.size(), from.size() * block_bytes);
            ASSERT_TRUE(copy_out(*device_, *pool_, layer, from, bytes));
            wait(StreamId::store);
            clear_unwritten(atom(), heads, tokens, bytes);
            ASSERT_TRUE(copy_in(*device_, *pool_, layer, to, {bytes}));
            wait(StreamId::load);
            for (int64_t key = 0; key < 48; ++key) {
                const auto block = static_cast<size_t>(key / kv_block_tokens);
                const auto slot = static_cast<int>(key % kv_block_tokens);
                for (int head = 0; head < heads; ++head) {
                    const auto expected = key_bytes(pool_->layer(layer).at(from[block], head), slot);
                    const auto found = key_bytes(pool_->layer(layer).at(to[block], head), slot);
                    if (key < tokens) {
                        ASSERT_EQ(found, expected) << key << " of " << tokens;
                    } else {
                        ASSERT_EQ(found, std::vector<std::byte>(expected.size())) << key << " of " << tokens;
                    }
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Types, KvBytes,
                         ::testing::Values(Shape{DType::f32, 0}, Shape{DType::bf16, 0}, Shape{DType::i8, 0},
                                           Shape{DType::bf16, 1}),
                         [](const auto& of) {
                             return std::string(traits(of.param.dtype).name) +
                                    (of.param.lower_layers > 0 ? "_two_groups" : "");
                         });

/// Parts are read into where they have 64 KiB on average: how large a block is does not matter.
TEST(PartsOfLayer, BlocksThatFollowOneAnotherAreOne) {
    const auto device = open_device({DeviceKind::cpu, 0, 1}).value();
    const auto pool_with_head_dim = [&](int d) {
        return KvPool::create(*device, KvShape{.layers = 3, .kv_heads = 2, .atom = {DType::bf16, d}}, {0, 64}).value();
    };
    const auto blocks = [](std::initializer_list<std::pair<int, int>> runs) {
        std::vector<int32_t> all;
        for (const auto& [first, count] : runs)
            for (int i = 0; i < count; ++i) all.push_back(first + i);
        return all;
    };
    const auto pool = pool_with_head_dim(64);  // a block of a layer has 8 KiB
    const auto size = bytes_of_layer(*pool, 1);
    ASSERT_EQ(size, 8192U);
    for (int layer = 0; layer < 3; ++layer) {
        const auto is = [&](const std::vector<int32_t>& of, const std::vector<std::pair<int, size_t>>& expected) {
            const MemoryParts parts = parts_of_layer(*device, *pool, layer, of);
            ASSERT_EQ(parts.size(), expected.size());
            for (size_t i = 0; i < parts.size(); ++i) {
                EXPECT_EQ(parts[i].data(), pool->layer(layer).at(expected[i].first, 0));
                EXPECT_EQ(parts[i].size(), expected[i].second * size);
            }
        };
        is(blocks({{10, 24}}), {{10, 24}});
        is(blocks({{0, 64}}), {{0, 64}});
        is(blocks({{20, 8}, {3, 8}}), {{20, 8}, {3, 8}});
        is(blocks({{20, 15}, {3, 1}}), {{20, 15}, {3, 1}});
        is(blocks({{20, 14}, {3, 1}}), {});
        is(blocks({{1, 1}, {0, 1}}), {});
        is(blocks({{10, 7}}), {});
        is({}, {});
    }
    const auto odd = pool_with_head_dim(24);  // 3 KiB: a disk reads multiples of 4 KiB
    EXPECT_TRUE(parts_of_layer(*device, *odd, 0, blocks({{0, 63}})).empty());
    EXPECT_TRUE(parts_of_layer(*device, *odd, 0, blocks({{1, 60}})).empty());
    EXPECT_EQ(parts_of_layer(*device, *odd, 0, blocks({{0, 64}})).size(), 1U);
}

}  // namespace
}  // namespace rondo
