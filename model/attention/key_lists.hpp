#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memory/per_group.hpp"
#include "model/files/spec.hpp"

namespace rondo {

/// The keys that were chosen of the first `tokens` of a sequence: by layer and KV head their numbers in the layer's
/// group, ascending. A group that does without some rounds had fewer `keys` than tokens.
struct KeyLists {
    explicit KeyLists(const ModelSpec& spec)
        : kv_heads(static_cast<size_t>(spec.kv_heads)), of_head(static_cast<size_t>(spec.layers) * kv_heads) {}

    size_t kv_heads;
    int64_t tokens = 0;
    PerGroup<int64_t> keys;
    std::vector<std::vector<int32_t>> of_head;  ///< [layers · kv_heads]

    std::span<const std::vector<int32_t>> of(int layer) const {
        return std::span(of_head).subspan(static_cast<size_t>(layer) * kv_heads, kv_heads);
    }
    std::span<std::vector<int32_t>> of(int layer) {
        return std::span(of_head).subspan(static_cast<size_t>(layer) * kv_heads, kv_heads);
    }
};

}  // namespace rondo
