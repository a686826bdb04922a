// Sixteen floats or bf16 at a time, and tiles of a head's 32 dimensions, for a processor with AVX-512 and bf16.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace rondo::demo {

constexpr int dim = 32;  // of a head
using bf16 = uint16_t;

struct Free {
    void operator()(void* p) const { std::free(p); }
};

// `count` zeros of four bytes each
template <class T = float>
std::unique_ptr<T[], Free> zeros(size_t count) {
    const size_t bytes = (count * sizeof(T) + 127) / 64 * 64;
    auto* p = static_cast<T*>(std::aligned_alloc(64, bytes));
    std::memset(p, 0, bytes);
    return std::unique_ptr<T[], Free>(p);
}

inline __m512 load16(const bf16* p) {
    const __m256i raw = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(raw), 16));
}

inline void store16(bf16* p, __m512 x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
}

inline __m512 exp16(__m512 x) {
    const __mmask16 counts = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.0f), _CMP_GT_OQ);
    const __m512 scaled = _mm512_mul_ps(x, _mm512_set1_ps(1.44269504f));
    const __m512 whole = _mm512_roundscale_ps(scaled, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 f = _mm512_sub_ps(scaled, whole);
    __m512 y = _mm512_set1_ps(1.3333558e-3f);
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(9.6181291e-3f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(5.5504109e-2f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(2.4022651e-1f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(6.9314718e-1f));
    y = _mm512_fmadd_ps(y, f, _mm512_set1_ps(1.0f));
    return _mm512_maskz_scalef_ps(counts, y, whole);  // no denormals
}

// Pairs of bf16 that stand for two terms of a sum, as the processor's dot product takes them.
using Pair = uint32_t;

inline __m512bh pairs(__m512i x) {
    return reinterpret_cast<__m512bh>(x);
}

// c[8][32] (+)= sum over pairs k of a[i * row_step + k * k_step] . b[k][32]
template <bool add>
void multiply(const Pair* a, size_t row_step, size_t k_step, const Pair* b, int count, float* c, size_t c_stride) {
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

// Sixteen pairs of two rows of floats: what the sum runs over are the rows.
inline __m512i interleave(__m512 upper, __m512 lower) {
    const auto widen = [](__m512 x) { return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x))); };
    return _mm512_or_si512(widen(upper), _mm512_slli_epi32(widen(lower), 16));
}

// [rows][32] -> [rows / 2][32] pairs of rows
inline void pair_rows(const float* from, int rows, Pair* to) {
    for (int r = 0; r < rows; r += 2)
        for (int d = 0; d < dim; d += 16)
            _mm512_store_si512(to + r / 2 * dim + d, interleave(_mm512_load_ps(from + r * dim + d),
                                                                _mm512_load_ps(from + (r + 1) * dim + d)));
}

// [rows][32] -> [rows][16] pairs of neighbours
inline void pair_columns(const float* from, int rows, Pair* to) {
    for (int r = 0; r < rows; ++r) {
        store16(reinterpret_cast<bf16*>(to + r * 16), _mm512_load_ps(from + r * dim));
        store16(reinterpret_cast<bf16*>(to + r * 16) + 16, _mm512_load_ps(from + r * dim + 16));
    }
}

// [rows][16] pairs -> blocks of 32 rows, each [16][32 rows]
inline void transpose_blocks(const Pair* from, int rows, Pair* to) {
    for (int block = 0; block < rows; block += 32)
        for (int r = 0; r < 32; ++r)
            for (int d = 0; d < 16; ++d) to[block * 16 + d * 32 + r] = from[(block + r) * 16 + d];
}

// x[rows][32] of a packed tensor with `stride` elements a row, rotated by position (direction 1 or -1) and scaled
inline void load_rows(const bf16* from, size_t stride, int rows, const float* cosine, const float* sine, float scale,
                      float* to) {
    const __m512 factor = _mm512_set1_ps(scale);
    for (int r = 0; r < rows; ++r) {
        __m512 low = load16(from + r * stride), high = load16(from + r * stride + 16);
        if (cosine) {
            const __m512 c = _mm512_loadu_ps(cosine + r * 16), s = _mm512_loadu_ps(sine + r * 16);
            const __m512 l = _mm512_fmsub_ps(low, c, _mm512_mul_ps(high, s));
            high = _mm512_fmadd_ps(high, c, _mm512_mul_ps(low, s));
            low = l;
        }
        _mm512_store_ps(to + r * dim, _mm512_mul_ps(low, factor));
        _mm512_store_ps(to + r * dim + 16, _mm512_mul_ps(high, factor));
    }
}

inline void store_rows(const float* from, int rows, const float* cosine, const float* sine, float scale, bf16* to,
                       size_t stride) {
    const __m512 factor = _mm512_set1_ps(scale);
    for (int r = 0; r < rows; ++r) {
        __m512 low = _mm512_load_ps(from + r * dim), high = _mm512_load_ps(from + r * dim + 16);
        if (cosine) {
            const __m512 c = _mm512_loadu_ps(cosine + r * 16), s = _mm512_loadu_ps(sine + r * 16);
            const __m512 l = _mm512_fmadd_ps(low, c, _mm512_mul_ps(high, s));
            high = _mm512_fmsub_ps(high, c, _mm512_mul_ps(low, s));
            low = l;
        }
        store16(to + r * stride, _mm512_mul_ps(low, factor));
        store16(to + r * stride + 16, _mm512_mul_ps(high, factor));
    }
}

}  // namespace rondo::demo
