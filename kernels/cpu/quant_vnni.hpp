#pragma once

#include "config/checked.hpp"
#include "kernels/cpu/quant_kernels.hpp"
#include "kernels/cpu/quant_layout.hpp"

// GCC 12 takes the deliberately undefined operands inside its own intrinsics for a mistake of ours.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>
#include <cstring>

/// What the kernels of quantized products with VNNI share: codes and scales of packed groups, in registers.
#define RONDO_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,prfchw")))
#define RONDO_VNNI_INLINE __attribute__((always_inline)) RONDO_VNNI inline

namespace rondo::cpu {
namespace {

/// How far ahead of the codes the first rows of a product prefetch into L2; the hardware's own prefetch stops at each
/// page. Threads take stretches of neighbouring groups, so a thread reads next what it prefetches beyond a group.
/// Measured from DRAM, one thread, GB/s without and with it: q8_0 14 and 16, q4_0 9 and 15, eight rows by q4_0 6 and
/// 11.
constexpr int64_t prefetch_bytes = 16384;

/// The low four bits of quad q.
template <int Q>
RONDO_VNNI_INLINE __m512i low_bits(const std::byte* codes) {
    const __m512i bytes = _mm512_load_si512(codes + (Q % 4) * 64);
    return _mm512_and_si512(Q < 4 ? bytes : _mm512_srli_epi16(bytes, 4), _mm512_set1_epi8(0x0F));
}

/// The low two bits of quad q, of codes that have no nibbles.
template <int Q>
RONDO_VNNI_INLINE __m512i low_pair(const std::byte* codes) {
    const __m512i bytes = _mm512_load_si512(codes + (Q / 4) * 64);
    return _mm512_and_si512(_mm512_srli_epi16(bytes, 2 * (Q % 4)), _mm512_set1_epi8(0x03));
}

/// low | (high, moved so that its bit From stands at bit To) & mask.
template <int From, int To = 4>
RONDO_VNNI_INLINE __m512i join_high_bits(__m512i low, __m512i high, char mask) {
    if constexpr (From < To) high = _mm512_slli_epi16(high, To - From);
    if constexpr (From > To) high = _mm512_srli_epi16(high, From - To);
    return _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi8(mask), 0xF8);
}

/// Whether quads from 4 on stay in their high nibbles, where they are sixteen times too large. That saves the shifts,
/// and costs each row a sum of its own: right for few rows.
template <DType Type, int M>
constexpr bool high_nibbles_stay = quant_layout(Type).code_bits == 4 && !has_codebook(Type) && M <= 2;

/// The codes of quad q of a block, for M rows of x: 16 rows × 4 inputs.
template <DType Type, int M, int Q>
RONDO_VNNI_INLINE __m512i load_quad(const std::byte* codes) {
    constexpr int Bits = quant_layout(Type).code_bits;
    if constexpr (has_codebook(Type)) {
        const __m128i book = _mm_loadu_si128(reinterpret_cast<const __m128i*>(quant_codebook.data()));
        return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(book), low_bits<Q>(codes));
    }
    if constexpr (Bits == 2) return low_pair<Q>(codes);
    if constexpr (Bits == 3) return join_high_bits<Q, 2>(low_pair<Q>(codes), _mm512_load_si512(codes + 128), 0x04);
    if constexpr (Bits == 8) return _mm512_load_si512(codes + Q * 64);
    if constexpr (Bits == 4 && (Q < 4 || !high_nibbles_stay<Type, M>)) return low_bits<Q>(codes);
    if constexpr (Bits == 4 && Q >= 4 && high_nibbles_stay<Type, M>) {
        return _mm512_and_si512(_mm512_load_si512(codes + (Q - 4) * 64), _mm512_set1_epi8(static_cast<char>(0xF0)));
    }
    if constexpr (Bits == 5) return join_high_bits<Q>(low_bits<Q>(codes), _mm512_load_si512(codes + 256), 0x10);
    if constexpr (Bits == 6) {
        const __m512i high = _mm512_load_si512(codes + 256 + (Q / 4) * 64);
        return join_high_bits<2 * (Q % 4)>(low_bits<Q>(codes), high, 0x30);
    }
}

RONDO_VNNI_INLINE __m512 load_f16(const std::byte* at) {
    return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(at)));
}

RONDO_VNNI_INLINE __m512 load_i8(const std::byte* at) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(at))));
}

/// The scale of every row's sub-block from its byte: `d` times the byte, or the low nibble where a minimum shares it.
template <DType Type>
RONDO_VNNI_INLINE __m512 sub_scale(__m512 d, const std::byte* at) {
    if constexpr (!quant_layout(Type).scale_nibbles) return _mm512_mul_ps(d, load_i8(at));
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(at)));
    return _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_and_si512(bytes, _mm512_set1_epi32(0x0F))));
}

/// A half's minimum of every row: `m` times the high nibble of its byte.
RONDO_VNNI_INLINE __m512 nibble_minimum(__m512 m, const std::byte* at) {
    const __m512i bytes = _mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(at)));
    return _mm512_mul_ps(m, _mm512_cvtepi32_ps(_mm512_srli_epi32(bytes, 4)));
}

/// Prefetches as many bytes of the stream as one block has, from `ahead` on, which stands for the first block.
template <DType Type>
RONDO_VNNI_INLINE void prefetch_block(const std::byte* ahead, int64_t block) {
    constexpr int64_t block_bytes = quant_layout(Type).chunk_bytes(quant_chunk_blocks) / quant_chunk_blocks;
    for (int64_t at = 0; at < block_bytes; at += 64) _mm_prefetch(ahead + block * block_bytes + at, _MM_HINT_T1);
}

/// Prefetches the cache lines that the sums of M rows will be written to. Many rows' outputs are more than a cache
/// holds, and a store that waits for its cache line holds up the next block.
template <int M>
RONDO_VNNI_INLINE void prefetch_outputs(const QuantProduct& product, int64_t group, int64_t row) {
    const float* const y = product.y + row * product.y_stride + group * quant_group_rows;
    for (int r = 0; r < M; ++r) _mm_prefetch(reinterpret_cast<const char*>(y + r * product.y_stride), _MM_HINT_ET0);
}

/// Writes the sums of M rows for one group.
template <int M>
RONDO_VNNI_INLINE void store_sums(const QuantProduct& product, int64_t group, int64_t row, __m512* sums) {
    const int64_t first = group * quant_group_rows;
    const int64_t valid = std::min<int64_t>(quant_group_rows, product.outputs - first);
    const __mmask16 mask = static_cast<__mmask16>((1U << valid) - 1);
    for (int r = 0; r < M; ++r) {
        float* y = product.y + (row + r) * product.y_stride + first;
        if (product.bias != nullptr)
            sums[r] = _mm512_add_ps(sums[r], _mm512_maskz_loadu_ps(mask, product.bias + first));
        if (product.accumulate) sums[r] = _mm512_add_ps(sums[r], _mm512_maskz_loadu_ps(mask, y));
        _mm512_mask_storeu_ps(y, mask, sums[r]);
    }
}

}  // namespace
}  // namespace rondo::cpu
