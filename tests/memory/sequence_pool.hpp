#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "memory/sequence_kv.hpp"
#include "tests/memory/fake_device.hpp"

namespace rondo::testing {

/// A pool of three layers for tests of sequences.
inline std::unique_ptr<KvPool> make_sequence_pool(Device& device, size_t blocks, int lower_layers = 1) {
    const KvShape shape{.layers = 3, .lower_layers = lower_layers, .kv_heads = 1, .atom = {DType::f32, 4}};
    return std::move(KvPool::create(device, shape, {blocks, blocks})).value();
}

inline std::vector<int32_t> begins(const SequenceKv& kv, LayerGroup group = LayerGroup::upper) {
    return {kv.block_begin(group).begin(), kv.block_begin(group).end()};
}

}  // namespace rondo::testing
