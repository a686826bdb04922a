#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

/// What the kernel files for AVX-512 with bf16 share, those with AMX tiles among them. Only they include this header.
#define RONDO_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")))

namespace rondo::cpu {

/// 2^x for x that is hardly above 0, within 3e-6, which is little beside the rounding of a weight to bf16; 0 far below.
RONDO_BF16 inline __m512 exp2_lanes(__m512 x) {
    const __m512 part = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);  // x − ⌊x⌋
    __m512 p = _mm512_set1_ps(1.3426684e-2F);
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(5.2242474e-2F));
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(2.4128021e-1F));
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(6.9304485e-1F));
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(1.0F));
    return _mm512_scalef_ps(p, x);  // · 2^⌊x⌋
}

/// The same pair of bf16 in all lanes.
RONDO_BF16 inline __m512bh all_lanes(const uint16_t* pair) {
    int32_t both = 0;
    std::memcpy(&both, pair, sizeof(both));  // rows of odd lengths lie anywhere
    return (__m512bh)_mm512_set1_epi32(both);
}
/// The lower 16 numbers alternating with the upper 16: 0, 16, 1, 17, …
RONDO_BF16 inline __m512i interleave_halves(__m512i x) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, x);
}
RONDO_BF16 inline __m512bh load_pairs(const uint16_t* from) {
    return (__m512bh)_mm512_loadu_si512(from);
}

}  // namespace rondo::cpu
