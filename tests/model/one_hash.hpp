#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

/// Keys that somebody chose so that they meet in a table.
namespace rondo::testing {

/// What undoes a multiplication by an odd number.
constexpr uint64_t inverse_of(uint64_t factor) {
    uint64_t inverse = factor;
    for (int i = 0; i < 6; ++i) inverse *= 2 - factor * inverse;
    return inverse;
}

/// ASCII keys of two words that libstdc++ gives one hash. It is a Murmur hash: whatever the first word is, one second
/// word leads to the wanted state.
inline std::vector<std::string> keys_of_one_hash(size_t count) {
    constexpr uint64_t factor = 0xC6A4A7935BD1E995, seed = 0xC70F6907, ascii = 0x7F7F7F7F7F7F7F7F;
    constexpr uint64_t inverse = inverse_of(factor);
    const auto fold = [](uint64_t word) { return word ^ word >> 47; };
    std::mt19937_64 random(17);
    std::vector<std::string> keys;
    while (keys.size() < count) {
        const uint64_t first = random() & ascii;
        const uint64_t state = ((seed ^ 16 * factor) ^ fold(first * factor) * factor) * factor;
        const std::array<uint64_t, 2> words{first, fold(state * inverse) * inverse};
        if ((words[1] & ~ascii) != 0) continue;
        keys.emplace_back(16, '\0');
        std::memcpy(keys.back().data(), words.data(), 16);
    }
    return keys;
}

/// Pairs of token ids whose hashes in BpeMerges differ in their upper half alone.
inline std::vector<std::pair<int32_t, int32_t>> pairs_of_one_place(size_t count) {
    const auto fold = [](uint64_t word) { return word ^ word >> 32; };
    std::vector<std::pair<int32_t, int32_t>> pairs;
    for (uint64_t upper = 1; pairs.size() < count; ++upper) {
        const uint64_t state = fold(upper << 32) * inverse_of(0xD6E8FEB86659FD93);
        const uint64_t pair = fold(state) * inverse_of(0x9E3779B97F4A7C15);
        const auto left = static_cast<int32_t>(pair >> 32), right = static_cast<int32_t>(pair);
        if (left >= 0 && right >= 0) pairs.emplace_back(left, right);
    }
    return pairs;
}

}  // namespace rondo::testing
