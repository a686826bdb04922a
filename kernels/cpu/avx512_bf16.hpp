#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/avx512.hpp"

/// What the kernel files for AVX-512 with bf16 share, those with AMX tiles among them. Only they include this header.
#define RONDO_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")))

namespace rondo::cpu {

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
