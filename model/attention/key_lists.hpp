#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/files/spec.hpp"

namespace rondo {

/// The keys that were chosen of the first `keys` of a sequence: by layer and KV head their numbers, ascending.
struct KeyLists {
    explicit KeyLists(const ModelSpec& spec)
        : kv_heads(static_cast<size_t>(spec.kv_heads)), of_head(static_cast<size_t>(spec.layers) * kv_heads) {}

    size_t kv_heads;
    int64_t keys = 0;
    std::vector<std::vector<int32_t>> of_head;  ///< [layers · kv_heads]

    std::span<const std::vector<int32_t>> of(int layer) const {
        return std::span(of_head).subspan(static_cast<size_t>(layer) * kv_heads, kv_heads);
    }
    std::span<std::vector<int32_t>> of(int layer) {
        return std::span(of_head).subspan(static_cast<size_t>(layer) * kv_heads, kv_heads);
    }
};

}  // namespace rondo
