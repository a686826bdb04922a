// Sixteen floats in one register, and products of bf16 in pairs: for a processor with AVX-512 and bf16.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace rondo::demo {

using Lanes = __m512;
using Stored = uint16_t;  // bf16: what tensors hold
using Term = uint32_t;    // two bf16 that stand for two terms of a sum, as the processor's dot product takes them
constexpr int fold = 2;   // terms of a sum in one Term

inline Lanes load(const float* p) {
    return _mm512_loadu_ps(p);
}
inline void store(float* p, Lanes x) {
    _mm512_storeu_ps(p, x);
}
inline Lanes all(float x) {
    return _mm512_set1_ps(x);
}
inline Lanes max(Lanes a, Lanes b) {
    return _mm512_max_ps(a, b);
}
inline float sum_of(Lanes x) {
    return _mm512_reduce_add_ps(x);
}
inline float most_of(Lanes x) {
    return _mm512_reduce_max_ps(x);
}

inline Lanes load16(const Stored* p) {
    const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
}

inline void store16(Stored* p, Lanes x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
}

inline Lanes nearest(Lanes x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// y * 2^whole, or 0 where x is below -87: no denormals
inline Lanes scaled(Lanes y, Lanes whole, Lanes x) {
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, all(-87.0f), _CMP_GT_OQ), y, whole);
}

// Sixteen columns of two rows
inline void fold_rows(const float* from, size_t stride, Term* to) {
    const auto widen = [](Lanes x) { return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x))); };
    _mm512_storeu_si512(to, _mm512_or_si512(widen(load(from)), _mm512_slli_epi32(widen(load(from + stride)), 16)));
}

inline __m512bh pairs(__m512i x) {
    return reinterpret_cast<__m512bh>(x);
}

// c[8][32] (+)= sum over k of a[i * row_step + k * k_step] . b[k][32]
template <bool add>
void multiply(const Term* a, size_t row_step, size_t k_step, const Term* b, int count, float* c, size_t c_stride) {
    __m512 sum[8][2];
    for (int i = 0; i < 8; ++i) {
        sum[i][0] = add ? _mm512_loadu_ps(c + i * c_stride) : _mm512_setzero_ps();
        sum[i][1] = add ? _mm512_loadu_ps(c + i * c_stride + 16) : _mm512_setzero_ps();
    }
    for (int k = 0; k < count; ++k) {
        const __m512bh b0 = pairs(_mm512_load_si512(b + k * 32)), b1 = pairs(_mm512_load_si512(b + k * 32 + 16));
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) {
            const __m512bh x = pairs(_mm512_set1_epi32(static_cast<int>(a[i * row_step + k * k_step])));
            sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, b0);
            sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, b1);
        }
    }
    for (int i = 0; i < 8; ++i) {
        _mm512_storeu_ps(c + i * c_stride, sum[i][0]);
        _mm512_storeu_ps(c + i * c_stride + 16, sum[i][1]);
    }
}

}  // namespace rondo::demo
