#pragma once

#include "kernels/cpu/avx512_bf16.hpp"
#include "kernels/kv_layout.hpp"

namespace rondo::cpu {

/// scores[key][line] = q·k of the 16 keys of a block, keys [16][d], with 8 or 16 lines, q [d / 2 pairs][lines][2]. A
/// lane is a line. Calls `every_32` after each 32 channels.
template <int Lines, class F>
RONDO_BF16 inline void score_block(const uint16_t* keys, const uint16_t* q, int64_t d, float* scores, F&& every_32) {
    static_assert(Lines == 8 || Lines == 16);
    const auto* const pairs = reinterpret_cast<const uint32_t*>(keys);
    const int64_t stride = d / 2;
    if constexpr (Lines == 16) {
        __m512 sums[kv_block_tokens];
        for (__m512& sum : sums) sum = _mm512_setzero_ps();
        for (int64_t begin = 0; begin < stride; begin += 16) {
            for (int64_t pair = begin; pair < begin + 16; ++pair) {
                const __m512bh lines = load_pairs(q + pair * 2 * Lines);
                for (int key = 0; key < kv_block_tokens; ++key)
                    sums[key] = _mm512_dpbf16_ps(sums[key], lines, all_lanes(pairs + key * stride + pair));
            }
            every_32();
        }
        for (int key = 0; key < kv_block_tokens; ++key) _mm512_storeu_ps(scores + key * Lines, sums[key]);
    } else {
        __m256 sums[kv_block_tokens];
        for (__m256& sum : sums) sum = _mm256_setzero_ps();
        for (int64_t begin = 0; begin < stride; begin += 16) {
            for (int64_t pair = begin; pair < begin + 16; ++pair) {
                const auto lines = (__m256bh)_mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + pair * 2 * Lines));
                for (int key = 0; key < kv_block_tokens; ++key)
                    sums[key] =
                        _mm256_dpbf16_ps(sums[key], lines,
                                         (__m256bh)_mm256_set1_epi32(static_cast<int32_t>(pairs[key * stride + pair])));
            }
            every_32();
        }
        for (int key = 0; key < kv_block_tokens; ++key) _mm256_storeu_ps(scores + key * Lines, sums[key]);
    }
}

}  // namespace rondo::cpu
