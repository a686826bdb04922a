#pragma once

#include <immintrin.h>

#include <cstdint>

/// What the kernel files for AVX-512 share. Only they include this header.
#define RONDO_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,fma")))

namespace rondo::cpu {

/// 2^x for x that is hardly above 0, within 3e-6 of it; 0 far below.
RONDO_AVX512 inline __m512 exp2_lanes(__m512 x) {
    const __m512 part = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);  // x − ⌊x⌋
    __m512 p = _mm512_set1_ps(1.3426684e-2F);
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(5.2242474e-2F));
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(2.4128021e-1F));
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(6.9304485e-1F));
    p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(1.0F));
    return _mm512_scalef_ps(p, x);  // · 2^⌊x⌋
}

/// The even and the odd of 32 bf16, as floats.
RONDO_AVX512 inline __m512 even_of(__m512i pairs) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}
RONDO_AVX512 inline __m512 odd_of(__m512i pairs) {
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
}

/// Two registers of sums, of which even lanes and odd ones belong together, become one register of their totals.
RONDO_AVX512 inline __m512 add_neighbours(__m512 a, __m512 b) {
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_add_ps(_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b));
}

/// 16 codes as numbers.
RONDO_AVX512 inline __m512 numbers_of(const int8_t* codes, __m512 scale) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes)), scale);
}

}  // namespace rondo::cpu
