#include <cassert>

#include "kernels/cpu/quant_kernels.hpp"

#if defined(__x86_64__)
#include "kernels/cpu/quant_vnni.hpp"

namespace rondo::cpu {
namespace {

/// sums[g][r] += Σ u·a over one quad for M rows of x, `stride` apart, and G groups. The sums take turns, so that
/// consecutive instructions do not wait for each other. Two groups share what is read of x: a processor with two of
/// these products a cycle reads no more than two numbers in it.
template <DType Type, int M, int G, int Q>
RONDO_VNNI_INLINE void add_quad(const std::byte* const* codes, const int8_t* a, int64_t stride, __m512i (*sums)[M]) {
    __m512i u[G];
    for (int g = 0; g < G; ++g) u[g] = load_quad<Type, M, Q>(codes[g]);
    for (int r = 0; r < M; ++r) {
        int32_t four;
        std::memcpy(&four, a + r * stride + 4 * Q, 4);
        const __m512i inputs = _mm512_set1_epi32(four);
        for (int g = 0; g < G; ++g) sums[g][r] = _mm512_dpbusd_epi32(sums[g][r], u[g], inputs);
    }
}

/// The same over quads [First, First + 4).
template <DType Type, int M, int G, int First>
RONDO_VNNI_INLINE void add_dots(const std::byte* const* codes, const int8_t* a, int64_t stride, __m512i (*sums)[M]) {
    add_quad<Type, M, G, First>(codes, a, stride, sums);
    add_quad<Type, M, G, First + 1>(codes, a, stride, sums);
    add_quad<Type, M, G, First + 2>(codes, a, stride, sums);
    add_quad<Type, M, G, First + 3>(codes, a, stride, sums);
}

/// Adds the minima of a block to the sums of M rows of x; each half of the block has a minimum in nibbles.
template <int M, int G>
RONDO_VNNI_INLINE void add_nibble_minima(const std::byte* const* m_at, const std::byte* const* scales,
                                         const QuantActivations& x, int64_t at, __m512 (*sums)[M]) {
    for (int s = 0; s < 2; ++s) {
        __m512 minima[G];
        for (int g = 0; g < G; ++g) minima[g] = nibble_minimum(load_f16(m_at[g]), scales[g] + 16 * s);
        for (int r = 0; r < M; ++r) {
            const int64_t row_at = at + r * (x.columns / quant_block);
            const float scaled_sum = x.scaled_half_sums[2 * row_at + s];
            for (int g = 0; g < G; ++g) sums[g][r] = _mm512_fmadd_ps(minima[g], _mm512_set1_ps(scaled_sum), sums[g][r]);
        }
    }
}

/// dots[g][r] = Σ w·a over sub-block S of a block, for M rows of x and G groups. `at` is the block's place in the
/// tables of the first row.
template <DType Type, int M, int G, int S>
RONDO_VNNI_INLINE void multiply_subblock(const std::byte* const* codes, const QuantActivations& x, const int8_t* a,
                                         int64_t at, __m512i (*dots)[M]) {
    constexpr QuantLayout layout = quant_layout(Type);
    const int64_t x_blocks = x.columns / quant_block;
    for (int r = 0; r < M; ++r) {
        const int64_t row_at = at + r * x_blocks;
        const int32_t code_sum = layout.subblocks == 2 ? x.half_sums[2 * row_at + S] : x.sums[row_at];
        const __m512i begin = _mm512_set1_epi32(layout.minima ? 0 : -layout.offset * code_sum);
        for (int g = 0; g < G; ++g) dots[g][r] = begin;
    }
    if constexpr (high_nibbles_stay<Type, M>) {
        __m512i sixteenfold[G][M];
        for (auto& group : sixteenfold) {
            for (__m512i& sum : group) sum = _mm512_setzero_si512();
        }
        add_dots<Type, M, G, 4>(codes, a, x.columns, sixteenfold);
        add_dots<Type, M, G, 0>(codes, a, x.columns, dots);
        for (int g = 0; g < G; ++g) {
            for (int r = 0; r < M; ++r)
                dots[g][r] = _mm512_add_epi32(dots[g][r], _mm512_srai_epi32(sixteenfold[g][r], 4));
        }
    } else {
        add_dots<Type, M, G, 4 * S>(codes, a, x.columns, dots);
        if constexpr (layout.subblocks == 1) add_dots<Type, M, G, 4>(codes, a, x.columns, dots);
    }
}

/// Adds a block with one scale to the sums.
template <DType Type, int M, int G>
RONDO_VNNI_INLINE void add_block(const std::byte* const* codes, const __m512* scales, const QuantActivations& x,
                                 const int8_t* a, int64_t at, __m512 (*sums)[M]) {
    __m512i dots[G][M];
    multiply_subblock<Type, M, G, 0>(codes, x, a, at, dots);
    for (int r = 0; r < M; ++r) {
        const __m512 x_scale = _mm512_set1_ps(x.scales[at + r * (x.columns / quant_block)]);
        for (int g = 0; g < G; ++g) {
            const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(dots[g][r]), scales[g]);
            sums[g][r] = _mm512_fmadd_ps(scaled, x_scale, sums[g][r]);
        }
    }
}

/// Adds a block whose halves have a scale each. The scale of x is the same for both, so it comes last.
template <DType Type, int M, int G>
RONDO_VNNI_INLINE void add_halves(const std::byte* const* codes, const __m512* scales0, const __m512* scales1,
                                  const QuantActivations& x, const int8_t* a, int64_t at, __m512 (*sums)[M]) {
    __m512i dots[G][M];
    __m512 scaled[G][M];
    multiply_subblock<Type, M, G, 0>(codes, x, a, at, dots);
    for (int g = 0; g < G; ++g) {
        for (int r = 0; r < M; ++r) scaled[g][r] = _mm512_mul_ps(_mm512_cvtepi32_ps(dots[g][r]), scales0[g]);
    }
    multiply_subblock<Type, M, G, 1>(codes, x, a, at, dots);
    for (int r = 0; r < M; ++r) {
        const __m512 x_scale = _mm512_set1_ps(x.scales[at + r * (x.columns / quant_block)]);
        for (int g = 0; g < G; ++g) {
            scaled[g][r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[g][r]), scales1[g], scaled[g][r]);
            sums[g][r] = _mm512_fmadd_ps(scaled[g][r], x_scale, sums[g][r]);
        }
    }
}

/// Adds the minima of block b of a chunk, whatever they look like.
template <DType Type, int M, int G>
RONDO_VNNI_INLINE void add_minima(const std::byte* const* chunks, int64_t blocks, int64_t b, const QuantActivations& x,
                                  int64_t at, __m512 (*sums)[M]) {
    constexpr QuantLayout layout = quant_layout(Type);
    const std::byte *m_at[G], *scales_at[G];
    for (int g = 0; g < G; ++g) {
        m_at[g] = chunks[g] + layout.m_offset(blocks) + (layout.super_blocks ? 0 : 32 * b);
        scales_at[g] = chunks[g] + layout.scales_offset(blocks) + 32 * b;
    }
    if constexpr (layout.scale_nibbles) {
        add_nibble_minima<M, G>(m_at, scales_at, x, at, sums);
    } else if constexpr (layout.minima) {
        __m512 minima[G];
        for (int g = 0; g < G; ++g) {
            minima[g] = load_f16(m_at[g]);
            if constexpr (layout.super_blocks)
                minima[g] = _mm512_mul_ps(minima[g], load_i8(chunks[g] + layout.mins_offset(blocks) + 16 * b));
        }
        for (int r = 0; r < M; ++r) {
            const __m512 scaled_sum = _mm512_set1_ps(x.scaled_sums[at + r * (x.columns / quant_block)]);
            for (int g = 0; g < G; ++g) sums[g][r] = _mm512_fmadd_ps(minima[g], scaled_sum, sums[g][r]);
        }
    }
}

/// Adds one chunk of each of G groups, blocks [block0, block0 + blocks) of its rows, to the sums of M rows of x.
template <DType Type, int M, int G>
RONDO_VNNI_INLINE void add_chunk(const std::byte* const* chunks, int64_t blocks, const QuantActivations& x, int64_t row,
                                 int64_t block0, __m512 (*sums)[M]) {
    constexpr QuantLayout layout = quant_layout(Type);
    const int64_t x_blocks = x.columns / quant_block;
    const int64_t ahead =
        G == 1 ? prefetch_bytes : G * layout.group_bytes(x.columns);  // a pair prefetches the next one
    const int8_t* a = x.codes + row * x.columns + block0 * quant_block;
    for (int64_t b = 0; b < blocks; ++b, a += quant_block) {
        const int64_t at = row * x_blocks + block0 + b;
        const std::byte* codes[G];
        __m512 scales[G], scales1[G];
        for (int g = 0; g < G; ++g) {
            if (row == 0) prefetch_block<Type>(chunks[g] + ahead, b);
            codes[g] = chunks[g] + b * layout.code_bytes();
            const std::byte* const scales_at = chunks[g] + layout.scales_offset(blocks);
            scales[g] = load_f16(chunks[g] + layout.d_offset(blocks) + (layout.super_blocks ? 0 : 32 * b));
            if constexpr (layout.subblocks == 2) {
                scales1[g] = sub_scale<Type>(scales[g], scales_at + 32 * b + 16);
                scales[g] = sub_scale<Type>(scales[g], scales_at + 32 * b);
            } else if constexpr (layout.super_blocks) {
                scales[g] = _mm512_mul_ps(scales[g], load_i8(scales_at + 16 * b));
            }
        }
        if constexpr (layout.subblocks == 2) {
            add_halves<Type, M, G>(codes, scales, scales1, x, a, at, sums);
        } else {
            add_block<Type, M, G>(codes, scales, x, a, at, sums);
        }
        add_minima<Type, M, G>(chunks, blocks, b, x, at, sums);
    }
}

/// G groups × M rows of x. However many they are, each sum is made of the same operations in the same order.
template <DType Type, int M, int G>
RONDO_VNNI void multiply_rows(const QuantProduct& product, const QuantActivations& x, int64_t group, int64_t row) {
    constexpr QuantLayout layout = quant_layout(Type);
    const int64_t blocks = product.columns / quant_block;
    const std::byte* chunks[G];
    __m512 sums[G][M];
    for (int g = 0; g < G; ++g) {
        chunks[g] = product.storage + (group + g) * layout.group_bytes(product.columns);
        for (__m512& sum : sums[g]) sum = _mm512_setzero_ps();
        if constexpr (M * G >= 8) prefetch_outputs<M>(product, group + g, row);
    }
    int64_t block = 0;
    for (; block + quant_chunk_blocks <= blocks; block += quant_chunk_blocks) {
        add_chunk<Type, M, G>(chunks, quant_chunk_blocks, x, row, block, sums);
        for (auto& chunk : chunks) chunk += layout.chunk_bytes(quant_chunk_blocks);
    }
    if (block < blocks) add_chunk<Type, M, G>(chunks, blocks - block, x, row, block, sums);
    for (int g = 0; g < G; ++g) store_sums<M>(product, group + g, row, sums[g]);
}

/// Rows [row, x.rows), fewer than two groups take at a time.
template <DType Type>
void multiply_group(const QuantProduct& product, const QuantActivations& x, int64_t group, int64_t row) {
    if constexpr (quant_layout(Type).code_bits < 6 && quant_layout(Type).subblocks == 1) {
        for (; row + 12 <= x.rows; row += 12) multiply_rows<Type, 12, 1>(product, x, group, row);
    }
    for (; row + 8 <= x.rows; row += 8) multiply_rows<Type, 8, 1>(product, x, group, row);
    for (; row + 4 <= x.rows; row += 4) multiply_rows<Type, 4, 1>(product, x, group, row);
    for (; row + 2 <= x.rows; row += 2) multiply_rows<Type, 2, 1>(product, x, group, row);
    for (; row < x.rows; ++row) multiply_rows<Type, 1, 1>(product, x, group, row);
}

/// Groups outermost: the codes of two stay in the nearest caches for all rows of x.
template <DType Type>
void multiply_groups(const QuantProduct& product, const QuantActivations& x) {
    constexpr int rows = quant_layout(Type).subblocks == 2 ? 4 : 6;  // whose sums the registers hold, twice
    const bool in_pairs = product.way == QuantWay::in_pairs && x.rows >= rows;
    int64_t group = product.group_begin;
    for (; in_pairs && group + 2 <= product.group_end; group += 2) {
        int64_t row = 0;
        for (; row + rows <= x.rows; row += rows) multiply_rows<Type, rows, 2>(product, x, group, row);
        for (int64_t one = group; one < group + 2; ++one) multiply_group<Type>(product, x, one, row);
    }
    for (; group < product.group_end; ++group) multiply_group<Type>(product, x, group, 0);
}

}  // namespace

void multiply_vnni(const QuantProduct& product, const QuantActivations& x) {
    assert(x.side_by_side == (product.way == QuantWay::widened ? strip_rows : 1));
    if (product.way == QuantWay::widened) return multiply_wide(product, x);
    with_quant_type(product.type, [&]<DType Type>() { multiply_groups<Type>(product, x); });
}

}  // namespace rondo::cpu

#else

namespace rondo::cpu {

void multiply_vnni(const QuantProduct& product, const QuantActivations& x) {
    multiply_portable(product, x);
}

}  // namespace rondo::cpu

#endif
