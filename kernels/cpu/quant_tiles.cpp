#include "kernels/cpu/amx_tiles.hpp"
#include "kernels/cpu/quant_vnni.hpp"

#define RONDO_UNPACK __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,prfchw")))
#define RONDO_UNPACK_INLINE __attribute__((always_inline)) RONDO_UNPACK inline

namespace rondo::cpu {
namespace {

/// Two inputs of 16 rows as pairs.
RONDO_UNPACK_INLINE __m512i pairs(__m512 first, __m512 second) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(second, first));
}

/// Input J of each of a quad's rows.
template <DType Type, int J>
RONDO_UNPACK_INLINE __m512 weight(__m512i quad, __m512 scale, __m512 minimum) {
    const __m512i code = _mm512_srai_epi32(J < 3 ? _mm512_slli_epi32(quad, 24 - 8 * J) : quad, 24);
    const __m512 product = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(code));  // exact where a minimum follows
    return quant_layout(Type).minima ? _mm512_add_ps(product, minimum) : product;
}

/// Quad Q of a block and those behind it: two rows of a tile each.
template <DType Type, int Q = 0>
RONDO_UNPACK_INLINE void unpack_quads(const std::byte* codes, const __m512* scales, const __m512* minima,
                                      uint16_t* to) {
    constexpr int many = 12;  // rows, for which no nibbles stay high
    constexpr QuantLayout layout = quant_layout(Type);
    constexpr int half = Q * layout.subblocks / 8;
    __m512i quad = load_quad<Type, many, Q>(codes);
    if constexpr (layout.offset != 0) quad = _mm512_sub_epi8(quad, _mm512_set1_epi8(static_cast<char>(layout.offset)));
    const __m512 scale = scales[half], minimum = minima[layout.scale_nibbles ? half : 0];
    const __m512i first = pairs(weight<Type, 0>(quad, scale, minimum), weight<Type, 1>(quad, scale, minimum));
    const __m512i second = pairs(weight<Type, 2>(quad, scale, minimum), weight<Type, 3>(quad, scale, minimum));
    _mm512_store_si512(to + 2 * Q * tile_inputs, first);
    _mm512_store_si512(to + (2 * Q + 1) * tile_inputs, second);
    if constexpr (Q < 7) unpack_quads<Type, Q + 1>(codes, scales, minima, to);
}

template <DType Type>
RONDO_UNPACK void unpack_block(const std::byte* chunk, int64_t blocks, int64_t b, uint16_t* to) {
    constexpr QuantLayout layout = quant_layout(Type);
    const int64_t own = layout.super_blocks ? 0 : 32 * b;
    const __m512 d = load_f16(chunk + layout.d_offset(blocks) + own);
    const std::byte* const bytes = chunk + layout.scales_offset(blocks) + 16 * layout.subblocks * b;
    __m512 scales[2] = {d, d}, minima[2] = {};
    if constexpr (layout.super_blocks) {
        for (int i = 0; i < layout.subblocks; ++i) scales[i] = sub_scale<Type>(d, bytes + 16 * i);
    }
    if constexpr (layout.minima) {
        const __m512 m = load_f16(chunk + layout.m_offset(blocks) + own);
        minima[0] = m;
        if constexpr (layout.scale_nibbles) {
            for (int i = 0; i < 2; ++i) minima[i] = nibble_minimum(m, bytes + 16 * i);
        } else if constexpr (layout.super_blocks) {
            minima[0] = _mm512_mul_ps(m, load_i8(chunk + layout.mins_offset(blocks) + 16 * b));
        }
    }
    prefetch_block<Type>(chunk + layout.chunk_bytes(blocks), b);  // what these rows are unpacked from next
    unpack_quads<Type>(chunk + b * layout.code_bytes(), scales, minima, to);
}

}  // namespace

void unpack_tile(DType type, const std::byte* chunk, int64_t blocks, int64_t b, uint16_t* out) {
    with_quant_type(type, [&]<DType Type>() { unpack_block<Type>(chunk, blocks, b, out); });
}

}  // namespace rondo::cpu
