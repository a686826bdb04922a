#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/cpu/avx512.hpp"
#include "kernels/kv_layout.hpp"

/// What attention and scoring in floats share, for any processor with AVX-512. head_dim is a multiple of 32.
namespace rondo::cpu {

/// Rows of codes with a scale each become floats.
RONDO_AVX512 inline void widen_codes(const int8_t* codes, const float* scales, int64_t rows, int64_t d, float* to) {
    for (int64_t t = 0; t < rows; ++t) {
        const __m512 scale = _mm512_set1_ps(scales[t]);
        for (int64_t c = 0; c < d; c += 16, codes += 16, to += 16) _mm512_storeu_ps(to, numbers_of(codes, scale));
    }
}

/// The first `filled` keys of a bf16 or i8 atom as floats [16][d]; the others become zero.
RONDO_AVX512 inline void widen_atom_keys(const KvAtom& layout, const std::byte* atom, int64_t filled, float* to) {
    const int64_t d = layout.head_dim;
    if (layout.dtype == DType::i8) {
        const auto* const scales = reinterpret_cast<const float*>(atom + layout.scales_offset());
        widen_codes(reinterpret_cast<const int8_t*>(atom), scales, filled, d, to);
    } else {
        const auto* const from = reinterpret_cast<const __m256i*>(atom);
        for (int64_t i = 0; i < filled * d / 16; ++i) {
            const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from + i));
            _mm512_storeu_ps(to + 16 * i, _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16)));
        }
    }
    std::fill(to + filled * d, to + kv_block_tokens * d, 0.0F);
}

/// The same of its values. In bf16 those of two tokens alternate.
RONDO_AVX512 inline void widen_atom_values(const KvAtom& layout, const std::byte* atom, int64_t filled, float* to) {
    const int64_t d = layout.head_dim;
    const std::byte* const values = atom + layout.half_bytes();
    if (layout.dtype == DType::i8) {
        const auto* const scales = reinterpret_cast<const float*>(atom + layout.scales_offset()) + kv_block_tokens;
        widen_codes(reinterpret_cast<const int8_t*>(values), scales, filled, d, to);
    } else {
        const auto* from = reinterpret_cast<const uint16_t*>(values);
        for (int64_t t = 0; t < filled; t += 2) {
            for (int64_t c = 0; c < d; c += 16, from += 32) {
                const __m512i pairs = _mm512_loadu_si512(from);
                _mm512_storeu_ps(to + t * d + c, even_of(pairs));
                _mm512_storeu_ps(to + (t + 1) * d + c, odd_of(pairs));
            }
        }
    }
    std::fill(to + filled * d, to + kv_block_tokens * d, 0.0F);
}

/// scores[key][query] = q·k of 16 keys [16][d] with 16 queries [d / 2 pairs][16][2]. Even and odd channels are summed
/// apart. Calls `every_32` after each 32 channels.
template <class F>
RONDO_AVX512 inline void score_sixteen(const float* keys, const uint16_t* q, int64_t d, float* scores, F&& every_32) {
    constexpr int together = kv_block_tokens / 2;
    for (int first = 0; first < kv_block_tokens; first += together) {
        const float* const from = keys + first * d;
        __m512 sums[together][2];
        for (auto& sum : sums) sum[0] = sum[1] = _mm512_setzero_ps();
        for (int64_t c = 0; c < d; c += 2) {
            const __m512i pairs = _mm512_loadu_si512(q + c * 16);
            const __m512 even = even_of(pairs), odd = odd_of(pairs);
            for (int key = 0; key < together; ++key) {
                sums[key][0] = _mm512_fmadd_ps(even, _mm512_set1_ps(from[key * d + c]), sums[key][0]);
                sums[key][1] = _mm512_fmadd_ps(odd, _mm512_set1_ps(from[key * d + c + 1]), sums[key][1]);
            }
            if (c % 32 == 30 && first > 0) every_32();
        }
        for (int key = 0; key < together; ++key)
            _mm512_storeu_ps(scores + (first + key) * 16, _mm512_add_ps(sums[key][0], sums[key][1]));
    }
}

/// The same with 8 queries [d / 2 pairs][8][2], whose even and odd channels stand side by side in a register: a query's
/// sums are made in the same order.
template <class F>
RONDO_AVX512 inline void score_eight(const float* keys, const uint16_t* q, int64_t d, float* scores, F&& every_32) {
    __m512 sums[kv_block_tokens];
    for (__m512& sum : sums) sum = _mm512_setzero_ps();
    for (int64_t c = 0; c < d; c += 2) {
        const __m512i pairs = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + c * 8)));
        const __m512 queries = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
        for (int key = 0; key < kv_block_tokens; ++key) {
            double both;
            std::memcpy(&both, keys + key * d + c, sizeof both);
            sums[key] = _mm512_fmadd_ps(queries, _mm512_castpd_ps(_mm512_set1_pd(both)), sums[key]);
        }
        if (c % 32 == 30) every_32();
    }
    for (int key = 0; key < kv_block_tokens; key += 2)
        _mm512_storeu_ps(scores + key * 8, add_neighbours(sums[key], sums[key + 1]));
}

/// The same with two groups of 16 queries, the second's scores behind the first's: sums are made in the same order.
/// Half as many keys at a time, so that each number of a key is read once for both.
RONDO_AVX512 inline void score_two_groups(const float* keys, const uint16_t* q, int64_t d, float* scores) {
    constexpr int together = kv_block_tokens / 4;
    for (int first = 0; first < kv_block_tokens; first += together) {
        const float* const from = keys + first * d;
        __m512 sums[together][2][2];  // by key, group, and even or odd channels
        for (auto& key : sums) {
            for (auto& sum : key) sum[0] = sum[1] = _mm512_setzero_ps();
        }
        for (int64_t c = 0; c < d; c += 2) {
            const __m512i pairs[2] = {_mm512_loadu_si512(q + c * 16), _mm512_loadu_si512(q + (d + c) * 16)};
            const __m512 even[2] = {even_of(pairs[0]), even_of(pairs[1])};
            const __m512 odd[2] = {odd_of(pairs[0]), odd_of(pairs[1])};
            for (int key = 0; key < together; ++key) {
                const __m512 one = _mm512_set1_ps(from[key * d + c]), two = _mm512_set1_ps(from[key * d + c + 1]);
                for (int group = 0; group < 2; ++group) {
                    sums[key][group][0] = _mm512_fmadd_ps(even[group], one, sums[key][group][0]);
                    sums[key][group][1] = _mm512_fmadd_ps(odd[group], two, sums[key][group][1]);
                }
            }
        }
        for (int key = 0; key < together; ++key) {
            for (int group = 0; group < 2; ++group) {
                _mm512_storeu_ps(scores + (group * kv_block_tokens + first + key) * 16,
                                 _mm512_add_ps(sums[key][group][0], sums[key][group][1]));
            }
        }
    }
}

}  // namespace rondo::cpu
