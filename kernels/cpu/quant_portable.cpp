#include <algorithm>
#include <cstring>

#include "kernels/cpu/quant_kernels.hpp"
#include "kernels/cpu/quant_layout.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/quant_portable.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/quant_unpack-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// Rows of x that share one unpacking of a chunk.
constexpr int64_t rows_at_once = 64;

/// Rows of x that share each reading of unpacked codes.
constexpr int rows_together = 4;

/// How far ahead of the codes the first rows of a product prefetch: the hardware's own prefetch stops at each page.
constexpr int64_t prefetch_bytes = 16384;

#undef RONDO_BYTE_PAIRS
#define RONDO_BYTE_PAIRS (HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3)

#if RONDO_BYTE_PAIRS
/// Σ of two products of an unsigned and a signed byte in each 16-bit lane, which must not be too large for it.
HWY_INLINE hn::Vec128<int16_t> multiply_pairs(hn::Vec128<uint8_t> u, hn::Vec128<int8_t> a) {
    return hn::Vec128<int16_t>{_mm_maddubs_epi16(u.raw, a.raw)};
}
#if HWY_TARGET <= HWY_AVX2
HWY_INLINE hn::Vec256<int16_t> multiply_pairs(hn::Vec256<uint8_t> u, hn::Vec256<int8_t> a) {
    return hn::Vec256<int16_t>{_mm256_maddubs_epi16(u.raw, a.raw)};
}
#endif
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE hn::Vec512<int16_t> multiply_pairs(hn::Vec512<uint8_t> u, hn::Vec512<int8_t> a) {
    return hn::Vec512<int16_t>{_mm512_maddubs_epi16(u.raw, a.raw)};
}
#endif

/// a, negated where w is negative. Where w is 0 the result is a or 0: its product with |w| is 0 in either case.
HWY_INLINE hn::Vec128<int8_t> take_signs(hn::Vec128<int8_t> a, hn::Vec128<int8_t> w) {
    return hn::Vec128<int8_t>{_mm_sign_epi8(a.raw, w.raw)};
}
#if HWY_TARGET <= HWY_AVX2
HWY_INLINE hn::Vec256<int8_t> take_signs(hn::Vec256<int8_t> a, hn::Vec256<int8_t> w) {
    return hn::Vec256<int8_t>{_mm256_sign_epi8(a.raw, w.raw)};
}
#endif
#if HWY_TARGET <= HWY_AVX3
/// AVX-512 has no such instruction: it negates under a mask, which all rows of x share.
HWY_INLINE hn::Vec512<int8_t> take_signs(hn::Vec512<int8_t> a, hn::Vec512<int8_t> w) {
    return hn::IfThenElse(hn::Lt(w, hn::Zero(hn::Full512<int8_t>())), hn::Neg(a), a);
}
#endif
#endif

/// How many quads of 16 rows may add their pairs of products in 16 bits; 0 where not even one may.
constexpr int quads_in_16_bits(QuantLayout layout) {
    if (layout.code_bits == 8 || layout.codebook) return 0;
    return std::min(8, 32767 / (2 * 127 * ((1 << layout.code_bits) - 1)));
}

/// Whether 8-bit codes are multiplied as signed numbers w, without their offset of 128: as |w| times a with w's sign.
/// 16 bits just hold two such products, of 128 · 127 at most: activations are never -128. Several rows share |w|; for
/// one row this is more work than widening.
template <DType Type, int rows>
constexpr bool signed_codes = rows > 1 && (RONDO_BYTE_PAIRS) != 0 && quads_in_16_bits(quant_layout(Type)) == 0;

/// sum + Σ of the four products u·a in each 32-bit lane, for `quads` quads of codes and the activations of rows
/// `x_stride` apart.
template <DType Type, int rows, int quads, class DI, class V = hn::Vec<DI>>
HWY_INLINE void add_quads(DI di, const uint32_t* codes, const int8_t* a, int64_t x_stride, V* sums) {
    const hn::RebindToUnsigned<DI> du;
    [[maybe_unused]] constexpr int at_once = quads_in_16_bits(quant_layout(Type));
#if RONDO_BYTE_PAIRS
    const hn::Repartition<int16_t, DI> d16;
    const hn::RebindToUnsigned<decltype(d16)> du16;
    [[maybe_unused]] const hn::Repartition<int8_t, DI> d8;
    [[maybe_unused]] const hn::Repartition<uint8_t, DI> du8;
    if constexpr (at_once > 0) {
        const auto ones = hn::Set(d16, 1);
        for (int q = 0; q < quads; q += at_once) {
            hn::Vec<decltype(d16)> pairs[rows];
            for (int i = q; i < std::min(q + at_once, quads); ++i) {
                const auto u = hn::BitCast(du8, hn::Load(du, codes + i * 16));
                for (int m = 0; m < rows; ++m) {
                    int32_t four;
                    std::memcpy(&four, a + m * x_stride + 4 * i, 4);
                    const auto products = multiply_pairs(u, hn::BitCast(d8, hn::Set(di, four)));
                    pairs[m] = i == q ? products : hn::Add(pairs[m], products);
                }
            }
            for (int m = 0; m < rows; ++m) {
                auto unused = hn::Zero(di);
                sums[m] = hn::ReorderWidenMulAccumulate(di, pairs[m], ones, sums[m], unused);
            }
        }
        return;
    }
    if constexpr (signed_codes<Type, rows>) {
        const auto ones = hn::Set(d16, 1);
        for (int q = 0; q < quads; ++q) {
            const auto w = hn::BitCast(d8, hn::Xor(hn::Load(du, codes + q * 16), hn::Set(du, 0x80808080U)));
            const auto magnitude = hn::BitCast(du8, hn::Abs(w));
            for (int m = 0; m < rows; ++m) {
                int32_t four;
                std::memcpy(&four, a + m * x_stride + 4 * q, 4);
                const auto pairs = multiply_pairs(magnitude, take_signs(hn::BitCast(d8, hn::Set(di, four)), w));
                auto unused = hn::Zero(di);
                sums[m] = hn::ReorderWidenMulAccumulate(di, pairs, ones, sums[m], unused);
            }
        }
        return;
    }
    // A pair of products of unsigned 8-bit codes is too large: codes and activations are widened, those with even
    // numbers and those with odd ones apart, since this multiply-add joins neighbours.
    for (int q = 0; q < quads; ++q) {
        const auto u = hn::BitCast(d16, hn::Load(du, codes + q * 16));
        const auto u_even = hn::And(u, hn::Set(d16, 0xFF));
        const auto u_odd = hn::BitCast(d16, hn::ShiftRight<8>(hn::BitCast(du16, u)));
        for (int m = 0; m < rows; ++m) {
            int32_t four;
            std::memcpy(&four, a + m * x_stride + 4 * q, 4);
            const auto both = hn::BitCast(d16, hn::Set(di, four));
            const auto a_even = hn::ShiftRight<8>(hn::ShiftLeft<8>(both)), a_odd = hn::ShiftRight<8>(both);
            auto unused = hn::Zero(di);
            sums[m] = hn::ReorderWidenMulAccumulate(di, u_even, a_even, sums[m], unused);
            sums[m] = hn::ReorderWidenMulAccumulate(di, u_odd, a_odd, sums[m], unused);
        }
    }
#else
    for (int q = 0; q < quads; ++q) {
        const auto u = hn::BitCast(di, hn::Load(du, codes + q * 16));
        const auto byte = hn::Set(di, 0xFF);
        for (int m = 0; m < rows; ++m) {
            const int8_t* const four = a + m * x_stride + 4 * q;
            sums[m] = hn::Add(sums[m], hn::Mul(hn::And(u, byte), hn::Set(di, four[0])));
            sums[m] = hn::Add(sums[m], hn::Mul(hn::And(hn::ShiftRight<8>(u), byte), hn::Set(di, four[1])));
            sums[m] = hn::Add(sums[m], hn::Mul(hn::And(hn::ShiftRight<16>(u), byte), hn::Set(di, four[2])));
            sums[m] = hn::Add(sums[m], hn::Mul(hn::And(hn::ShiftRight<24>(u), byte), hn::Set(di, four[3])));
        }
    }
#endif
}

/// Asks for as many bytes behind `ahead` as a block has, in cache lines.
template <DType Type>
HWY_INLINE void prefetch_block(const std::byte* ahead, int64_t block) {
    constexpr int64_t block_bytes = quant_layout(Type).chunk_bytes(quant_chunk_blocks) / quant_chunk_blocks;
    ahead += block * block_bytes;
    for (int64_t at = 0; at < block_bytes; at += 64) hwy::Prefetch(ahead + at);
}

/// Adds blocks [block0, block0 + blocks) of some rows of x to their 16 sums each. `ahead` is what is read later on, or
/// null.
template <DType Type, int rows>
void add_rows(const uint32_t* codes, const UnpackedChunk& chunk, int64_t blocks, const QuantActivations& x, int64_t row,
              int64_t block0, const std::byte* ahead, float* sums) {
    constexpr QuantLayout layout = quant_layout(Type);
    constexpr int subblocks = layout.subblocks, quads = 8 / subblocks;
    const hn::CappedTag<float, 16> d;
    const hn::RebindToSigned<decltype(d)> di;
    const int64_t x_blocks = x.columns / quant_block;
    for (size_t r = 0; r < 16; r += hn::Lanes(d)) {
        hn::Vec<decltype(d)> sum[rows];
        for (int m = 0; m < rows; ++m) sum[m] = hn::Load(d, sums + m * 16 + r);
        for (int64_t b = 0; b < blocks; ++b) {
            if (ahead != nullptr && r == 0) prefetch_block<Type>(ahead, b);
            const int64_t at = row * x_blocks + block0 + b;
            const int8_t* const a = x.codes + row * x.columns + (block0 + b) * quant_block;
            hn::Vec<decltype(d)> scaled[rows];
            for (int s = 0; s < subblocks; ++s) {
                hn::Vec<decltype(di)> products[rows];
                for (int m = 0; m < rows; ++m) {
                    const int64_t row_at = at + m * x_blocks;
                    const int32_t code_sum = subblocks == 2 ? x.half_sums[2 * row_at + s] : x.sums[row_at];
                    products[m] =
                        hn::Set(di, layout.minima || signed_codes<Type, rows> ? 0 : -layout.offset * code_sum);
                }
                add_quads<Type, rows, quads>(di, codes + b * 128 + s * quads * 16 + r, a + s * quads * 4, x.columns,
                                             products);
                const auto scale = hn::Load(d, chunk.scales + (b * subblocks + s) * 16 + r);
                for (int m = 0; m < rows; ++m) {
                    const auto x_scale = hn::Set(d, x.scales[at + m * x_blocks]);
                    const auto product = hn::ConvertTo(d, products[m]);
                    scaled[m] = s == 0 ? hn::Mul(product, scale) : hn::MulAdd(product, scale, scaled[m]);
                    if (s + 1 == subblocks) sum[m] = hn::MulAdd(scaled[m], x_scale, sum[m]);
                }
            }
            for (int s = 0; layout.minima && s < subblocks; ++s) {
                const auto minimum = hn::Load(d, chunk.minima + (b * subblocks + s) * 16 + r);
                for (int m = 0; m < rows; ++m) {
                    const int64_t row_at = at + m * x_blocks;
                    const float scaled_sum =
                        subblocks == 2 ? x.scaled_half_sums[2 * row_at + s] : x.scaled_sums[row_at];
                    sum[m] = hn::MulAdd(minimum, hn::Set(d, scaled_sum), sum[m]);
                }
            }
        }
        for (int m = 0; m < rows; ++m) hn::Store(sum[m], d, sums + m * 16 + r);
    }
}

void write_row(const QuantProduct& product, int64_t row, int64_t first, const float* sums) {
    float* y = product.y + row * product.y_stride + first;
    const int64_t valid = std::min<int64_t>(quant_group_rows, product.outputs - first);
    for (int64_t i = 0; i < valid; ++i) {
        float sum = sums[i];
        if (product.bias != nullptr) sum += product.bias[first + i];
        y[i] = product.accumulate ? sum + y[i] : sum;
    }
}

template <DType Type>
void multiply_group(const QuantProduct& product, const QuantActivations& x, int64_t group, int64_t row0, int64_t rows) {
    constexpr QuantLayout layout = quant_layout(Type);
    const int64_t blocks = product.columns / quant_block;
    const std::byte* at = product.storage + group * layout.group_bytes(product.columns);
    UnpackedChunk chunk;
    HWY_ALIGN float sums[rows_at_once * 16] = {};
    for (int64_t block = 0; block < blocks; block += quant_chunk_blocks) {
        const int64_t count = std::min(quant_chunk_blocks, blocks - block);
        unpack_chunk<Type>(at, count, chunk);
        const uint32_t* const codes = codes_of<Type>(at, chunk);
        const std::byte* ahead = row0 == 0 ? at + prefetch_bytes : nullptr;  // the first rows ask
        int64_t r = 0;
        for (; r + rows_together <= rows; r += rows_together, ahead = nullptr)
            add_rows<Type, rows_together>(codes, chunk, count, x, row0 + r, block, ahead, sums + r * 16);
        for (; r < rows; ++r, ahead = nullptr)
            add_rows<Type, 1>(codes, chunk, count, x, row0 + r, block, ahead, sums + r * 16);
        at += layout.chunk_bytes(count);
    }
    for (int64_t r = 0; r < rows; ++r) write_row(product, row0 + r, group * quant_group_rows, sums + r * 16);
}

template <DType Type>
void multiply_groups(const QuantProduct& product, const QuantActivations& x) {
    for (int64_t group = product.group_begin; group < product.group_end; ++group) {
        for (int64_t row = 0; row < x.rows; row += rows_at_once) {
            multiply_group<Type>(product, x, group, row, std::min(rows_at_once, x.rows - row));
        }
    }
}

void multiply(const QuantProduct& product, const QuantActivations& x) {
    with_quant_type(product.type, [&]<DType Type>() { multiply_groups<Type>(product, x); });
}

}  // namespace
}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rondo::cpu {

HWY_EXPORT(multiply);

void multiply_portable(const QuantProduct& product, const QuantActivations& x) {
    HWY_DYNAMIC_DISPATCH(multiply)(product, x);
}

}  // namespace rondo::cpu
#endif
