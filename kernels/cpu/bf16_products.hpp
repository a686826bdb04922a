#pragma once

#include <cstring>

#include "kernels/cpu/avx512_bf16.hpp"
#include "kernels/kv_layout.hpp"

namespace rondo::cpu {

/// Four channels of a key in all lanes, two to a lane.
RONDO_BF16 inline __m512bh two_pairs(const uint16_t* channels) {
    int64_t both;
    std::memcpy(&both, channels, sizeof(both));
    return (__m512bh)_mm512_set1_epi64(both);
}

/// scores[key][query] = q·k of the 16 keys of a block with 8 or 16 queries: keys [16][d], q [d / 2 pairs][queries][2],
/// d a multiple of 32. Even and odd pairs of channels are summed apart, in the same order for 8 queries and for 16.
/// Calls `every_32` after each 32 channels.
template <int Queries, class F>
RONDO_BF16 inline void score_block(const uint16_t* keys, const uint16_t* q, int64_t d, float* scores, F&& every_32) {
    static_assert(Queries == 8 || Queries == 16);
    // The even and odd pairs of eight queries stand side by side in a register; sixteen queries take one for each.
    constexpr int together = Queries == 8 ? kv_block_tokens : kv_block_tokens / 2;
    const __m512i side_by_side = _mm512_set_epi32(15, 7, 14, 6, 13, 5, 12, 4, 11, 3, 10, 2, 9, 1, 8, 0);
    for (int first = 0; first < kv_block_tokens; first += together) {
        __m512 sums[kv_block_tokens];
        for (__m512& sum : sums) sum = _mm512_setzero_ps();
        for (int64_t c = 0; c < d; c += 4) {
            const uint16_t* const queries = q + c * Queries;
            const uint16_t* from = keys + first * d + c;
            if constexpr (Queries == 8) {
                const auto both = (__m512bh)_mm512_permutexvar_epi32(side_by_side, (__m512i)load_pairs(queries));
                for (int key = 0; key < together; key += 4, from += 4 * d) {
                    sums[key] = _mm512_dpbf16_ps(sums[key], both, two_pairs(from));
                    sums[key + 1] = _mm512_dpbf16_ps(sums[key + 1], both, two_pairs(from + d));
                    sums[key + 2] = _mm512_dpbf16_ps(sums[key + 2], both, two_pairs(from + 2 * d));
                    sums[key + 3] = _mm512_dpbf16_ps(sums[key + 3], both, two_pairs(from + 3 * d));
                }
            } else {
                const __m512bh even = load_pairs(queries), odd = load_pairs(queries + 2 * Queries);
                for (int key = 0; key < together; ++key) {
                    const uint16_t* const pairs = from + key * d;
                    sums[2 * key] = _mm512_dpbf16_ps(sums[2 * key], even, all_lanes(pairs));
                    sums[2 * key + 1] = _mm512_dpbf16_ps(sums[2 * key + 1], odd, all_lanes(pairs + 2));
                }
            }
            if (c % 32 == 28 && (Queries == 8 || first > 0)) every_32();
        }
        for (int i = 0; i < kv_block_tokens; i += 2) {
            const __m512 total =
                Queries == 8 ? add_neighbours(sums[i], sums[i + 1]) : _mm512_add_ps(sums[i], sums[i + 1]);
            _mm512_storeu_ps(scores + first * Queries + i / 2 * 16, total);
        }
    }
}

}  // namespace rondo::cpu
