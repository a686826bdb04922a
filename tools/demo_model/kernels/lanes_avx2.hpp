// Sixteen floats in two registers, and products of floats: for a processor with AVX2 and no bf16.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace rondo::demo {

struct Lanes {
    __m256 low, high;
};
using Stored = float;    // what tensors hold
using Term = float;      // of a sum
constexpr int fold = 1;  // terms of a sum in one Term

inline Lanes operator+(Lanes a, Lanes b) {
    return {a.low + b.low, a.high + b.high};
}
inline Lanes operator-(Lanes a, Lanes b) {
    return {a.low - b.low, a.high - b.high};
}
inline Lanes operator*(Lanes a, Lanes b) {
    return {a.low * b.low, a.high * b.high};
}
inline Lanes operator/(Lanes a, Lanes b) {
    return {a.low / b.low, a.high / b.high};
}

inline Lanes load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
inline void store(float* p, Lanes x) {
    _mm256_storeu_ps(p, x.low);
    _mm256_storeu_ps(p + 8, x.high);
}
inline Lanes load16(const Stored* p) {
    return load(p);
}
inline void store16(Stored* p, Lanes x) {
    store(p, x);
}
inline Lanes all(float x) {
    return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
inline Lanes max(Lanes a, Lanes b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}

inline float sum_of(Lanes x) {
    const __m256 both = x.low + x.high;
    const __m128 four = _mm256_castps256_ps128(both) + _mm256_extractf128_ps(both, 1);
    return (four[0] + four[1]) + (four[2] + four[3]);
}

inline float most_of(Lanes x) {
    const __m256 both = _mm256_max_ps(x.low, x.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}

inline Lanes nearest(Lanes x) {
    constexpr int how = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(x.low, how), _mm256_round_ps(x.high, how)};
}

// y * 2^whole, or 0 where x is below -87: no denormals
inline __m256 scaled(__m256 y, __m256 whole, __m256 x) {
    const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(whole), 23);
    const __m256 product = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), exponent));
    return _mm256_and_ps(product, _mm256_cmp_ps(x, _mm256_set1_ps(-87.0f), _CMP_GT_OQ));
}
inline Lanes scaled(Lanes y, Lanes whole, Lanes x) {
    return {scaled(y.low, whole.low, x.low), scaled(y.high, whole.high, x.high)};
}

// Sixteen columns of one row
inline void fold_rows(const float* from, size_t, Term* to) {
    store(to, load(from));
}

// c[8][32] (+)= sum over k of a[i * row_step + k * k_step] . b[k][32], in tiles of 4 x 16: eight registers of sums
template <bool add>
void multiply(const Term* a, size_t row_step, size_t k_step, const Term* b, int count, float* c, size_t c_stride) {
    for (int row = 0; row < 8; row += 4)
        for (int column = 0; column < 32; column += 16) {
            const Term *from = a + row * row_step, *with = b + column;
            float* to = c + row * c_stride + column;
            __m256 sum[4][2];
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 2; ++j)
                    sum[i][j] = add ? _mm256_loadu_ps(to + i * c_stride + j * 8) : _mm256_setzero_ps();
            for (int k = 0; k < count; ++k) {
                const __m256 b0 = _mm256_load_ps(with + k * 32), b1 = _mm256_load_ps(with + k * 32 + 8);
#pragma GCC unroll 4
                for (int i = 0; i < 4; ++i) {
                    const __m256 x = _mm256_broadcast_ss(from + i * row_step + k * k_step);
                    sum[i][0] = _mm256_fmadd_ps(x, b0, sum[i][0]);
                    sum[i][1] = _mm256_fmadd_ps(x, b1, sum[i][1]);
                }
            }
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 2; ++j) _mm256_storeu_ps(to + i * c_stride + j * 8, sum[i][j]);
        }
}

}  // namespace rondo::demo
