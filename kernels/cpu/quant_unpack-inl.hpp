// Unpacks chunks of quant_layout.hpp; included once for each of Highway's targets by the files beside it.
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/quant_layout.hpp"

#if defined(RONDO_QUANT_UNPACK_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef RONDO_QUANT_UNPACK_INL
#undef RONDO_QUANT_UNPACK_INL
#else
#define RONDO_QUANT_UNPACK_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace rondo::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

/// A chunk with one byte a code and float scales, on the stack: a few kilobytes that stay in the nearest cache.
struct UnpackedChunk {
    HWY_ALIGN uint32_t codes[quant_chunk_blocks * 128];   ///< [block][quad][16 rows], four inputs a word
    HWY_ALIGN float scales[quant_chunk_blocks * 2 * 16];  ///< [block · subblocks][16 rows]
    HWY_ALIGN float minima[quant_chunk_blocks * 16];      ///< [block][16 rows]
};

/// f16 [count] to floats, exact for every bit pattern; count is a multiple of 16. By integers: Highway's own conversion
/// makes infinities finite where the machine has no instruction for it. Subnormals, which small scales often are, go
/// through an integer conversion, since floats that small would cost the machine a slow path.
inline void widen_f16(const std::byte* from, float* to, int64_t count) {
    const hn::CappedTag<float, 16> d;
    const hn::RebindToUnsigned<decltype(d)> du;
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<uint16_t, decltype(d)> narrow;
    const auto* halves = reinterpret_cast<const uint16_t*>(from);
    const auto rebias = hn::Set(di, 112 << 23);
    for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
        const auto half = hn::BitCast(di, hn::PromoteTo(du, hn::Load(narrow, halves + i)));
        const auto magnitude = hn::And(half, hn::Set(di, 0x7FFF));
        const auto sign = hn::ShiftLeft<16>(hn::Sub(half, magnitude));
        const auto not_finite = hn::VecFromMask(di, hn::Gt(magnitude, hn::Set(di, 0x7BFF)));
        const auto shifted = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Add(rebias, hn::And(not_finite, rebias)));
        const auto subnormal = hn::BitCast(di, hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-24F)));
        const auto bits = hn::IfThenElse(hn::Gt(hn::Set(di, 0x400), magnitude), subnormal, shifted);
        hn::Store(hn::BitCast(d, hn::Or(bits, sign)), d, to + i);
    }
}

/// to[16·i + r] = factor[r] · from[16·i + r].
inline void widen_sub_scales(const std::byte* from, const float* factor, float* to, int64_t count) {
    const hn::CappedTag<float, 16> d;
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<int8_t, decltype(d)> narrow;
    const auto* bytes = reinterpret_cast<const int8_t*>(from);
    for (int64_t i = 0; i < count; ++i) {
        for (size_t r = 0; r < 16; r += hn::Lanes(d)) {
            const auto scale = hn::ConvertTo(d, hn::PromoteTo(di, hn::Load(narrow, bytes + 16 * i + r)));
            hn::Store(hn::Mul(hn::Load(d, factor + r), scale), d, to + 16 * i + r);
        }
    }
}

/// The codes of one block, from nibbles and planes of higher bits to [8 quads][16 rows], four codes a word.
template <int Bits>
void unpack_codes(const std::byte* packed, uint32_t* codes) {
    const hn::CappedTag<uint32_t, 16> d;
    const auto* from = reinterpret_cast<const uint32_t*>(packed);
    const auto nibble = hn::Set(d, 0x0F0F0F0FU);
    for (size_t r = 0; r < 16; r += hn::Lanes(d)) {
        for (int i = 0; i < 4; ++i) {
            const auto bytes = hn::Load(d, from + 16 * i + r);
            hn::Store(hn::And(bytes, nibble), d, codes + 16 * i + r);
            hn::Store(hn::And(hn::ShiftRight<4>(bytes), nibble), d, codes + 16 * (i + 4) + r);
        }
        if constexpr (Bits > 4) {
            const auto mask = hn::Set(d, Bits == 5 ? 0x10101010U : 0x30303030U);
            auto high = hn::Load(d, from + 64 + r);
            for (int q = 0; q < 8; ++q) {  // the lowest bits of each byte of `high` are quad q's
                if (Bits == 6 && q == 4) high = hn::Load(d, from + 80 + r);
                uint32_t* to = codes + 16 * q + r;
                hn::Store(hn::Or(hn::Load(d, to), hn::And(hn::ShiftLeft<4>(high), mask)), d, to);
                high = hn::ShiftRight < Bits == 6 ? 2 : 1 > (high);
            }
        }
    }
}

/// Everything but 8-bit codes, which are bytes already and are read where they lie (`codes_of`).
template <DType Type>
void unpack_chunk(const std::byte* chunk, int64_t blocks, UnpackedChunk& out) {
    constexpr QuantLayout layout = quant_layout(Type);
    if constexpr (layout.code_bits != 8) {
        for (int64_t b = 0; b < blocks; ++b) {
            unpack_codes<layout.code_bits>(chunk + b * layout.code_bytes(), out.codes + b * 128);
        }
    }
    if constexpr (layout.super_blocks) {
        HWY_ALIGN float factor[16];
        widen_f16(chunk + layout.d_offset(blocks), factor, 16);
        widen_sub_scales(chunk + layout.scales_offset(blocks), factor, out.scales, blocks * layout.subblocks);
        if constexpr (layout.minima) {
            widen_f16(chunk + layout.m_offset(blocks), factor, 16);
            widen_sub_scales(chunk + layout.mins_offset(blocks), factor, out.minima, blocks);
        }
    } else {
        widen_f16(chunk + layout.d_offset(blocks), out.scales, blocks * 16);
        if constexpr (layout.minima) widen_f16(chunk + layout.m_offset(blocks), out.minima, blocks * 16);
    }
}

template <DType Type>
const uint32_t* codes_of(const std::byte* chunk, const UnpackedChunk& unpacked) {
    return quant_layout(Type).code_bits == 8 ? reinterpret_cast<const uint32_t*>(chunk) : unpacked.codes;
}

}  // namespace
}  // namespace rondo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
