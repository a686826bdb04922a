#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace rondo {

/// Layers below the watershed and those above: blocks of the two are acquired, dropped and moved apart. A group without
/// layers has no storage and no blocks.
enum class LayerGroup : uint8_t { lower = 0, upper = 1 };
inline constexpr std::array layer_groups = {LayerGroup::lower, LayerGroup::upper};

/// One value for each layer group, the lower one's first.
template <class T>
struct PerGroup {
    std::array<T, layer_groups.size()> values{};

    constexpr T& operator[](LayerGroup group) { return values[static_cast<size_t>(group)]; }
    constexpr const T& operator[](LayerGroup group) const { return values[static_cast<size_t>(group)]; }
    constexpr PerGroup& operator+=(const PerGroup& more) {
        for (const LayerGroup group : layer_groups) (*this)[group] += more[group];
        return *this;
    }
    constexpr T sum() const {
        T all{};
        for (const T& value : values) all += value;
        return all;
    }
    bool operator==(const PerGroup&) const = default;
};

/// Blocks of each group; 0 of one without layers.
using BlockCounts = PerGroup<int64_t>;

}  // namespace rondo
