// Unpacks chunks of quant_layout.hpp; included once for each of Highway's targets by the files beside it.
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

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
    HWY_ALIGN float minima[quant_chunk_blocks * 2 * 16];  ///< the same; types with minima only
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

/// The same from bytes that have a scale in the low nibble and a minimum in the high one.
inline void widen_nibble_scales(const std::byte* from, const float* d_rows, const float* m_rows, int64_t count,
                                float* scales, float* minima) {
    const hn::CappedTag<float, 16> d;
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<uint8_t, decltype(d)> narrow;
    const auto* bytes = reinterpret_cast<const uint8_t*>(from);
    for (int64_t i = 0; i < count; ++i) {
        for (size_t r = 0; r < 16; r += hn::Lanes(d)) {
            const auto both = hn::PromoteTo(di, hn::Load(narrow, bytes + 16 * i + r));
            const auto scale = hn::ConvertTo(d, hn::And(both, hn::Set(di, 0x0F)));
            const auto minimum = hn::ConvertTo(d, hn::ShiftRight<4>(both));
            hn::Store(hn::Mul(hn::Load(d, d_rows + r), scale), d, scales + 16 * i + r);
            hn::Store(hn::Mul(hn::Load(d, m_rows + r), minimum), d, minima + 16 * i + r);
        }
    }
}

/// The low two bits of 2- and 3-bit codes, from their two planes.
inline void unpack_pairs(const std::byte* packed, uint32_t* codes) {
    const hn::CappedTag<uint32_t, 16> d;
    const auto* from = reinterpret_cast<const uint32_t*>(packed);
    for (size_t r = 0; r < 16; r += hn::Lanes(d)) {
        for (int q = 0; q < 8; q += 4) {
            auto bytes = hn::Load(d, from + 4 * q + r);
            for (int t = 0; t < 4; ++t) {  // the lowest bits of each byte are quad q + t's
                hn::Store(hn::And(bytes, hn::Set(d, 0x03030303U)), d, codes + 16 * (q + t) + r);
                bytes = hn::ShiftRight<2>(bytes);
            }
        }
    }
}

/// Adds the third bits of 3-bit codes, from their plane.
inline void unpack_third_bits(const std::byte* packed, uint32_t* codes) {
    const hn::CappedTag<uint32_t, 16> d;
    for (size_t r = 0; r < 16; r += hn::Lanes(d)) {
        auto bits = hn::Load(d, reinterpret_cast<const uint32_t*>(packed) + r);
        for (int q = 0; q < 8; ++q) {
            uint32_t* to = codes + 16 * q + r;
            hn::Store(hn::Or(hn::Load(d, to), hn::And(hn::ShiftLeft<2>(bits), hn::Set(d, 0x04040404U))), d, to);
            bits = hn::ShiftRight<1>(bits);
        }
    }
}

/// Codes that are places in quant_codebook become what stands there.
inline void look_up_codes(uint32_t* codes) {
    auto* bytes = reinterpret_cast<uint8_t*>(codes);
#if HWY_TARGET == HWY_SCALAR  // whose registers hold one byte, and no table
    for (int i = 0; i < 512; ++i) bytes[i] = quant_codebook[bytes[i]];
#else
    const hn::CappedTag<uint8_t, 64> d;
    HWY_ALIGN uint8_t book[16];
    std::memcpy(book, quant_codebook.data(), sizeof(book));
    const auto table = hn::LoadDup128(d, book);
    for (size_t i = 0; i < 512; i += hn::Lanes(d)) {
        hn::Store(hn::TableLookupBytes(table, hn::Load(d, bytes + i)), d, bytes + i);
    }
#endif
}

/// The codes of one block, from nibbles and planes of higher bits to [8 quads][16 rows], four codes a word.
template <int Bits>
void unpack_codes(const std::byte* packed, uint32_t* codes) {
    if constexpr (Bits < 4) {
        unpack_pairs(packed, codes);
        if constexpr (Bits == 3) unpack_third_bits(packed + 128, codes);
        return;
    }
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
            if constexpr (layout.codebook) look_up_codes(out.codes + b * 128);
        }
    }
    if constexpr (layout.scale_nibbles) {
        HWY_ALIGN float d_rows[16], m_rows[16];
        widen_f16(chunk + layout.d_offset(blocks), d_rows, 16);
        widen_f16(chunk + layout.m_offset(blocks), m_rows, 16);
        widen_nibble_scales(chunk + layout.scales_offset(blocks), d_rows, m_rows, blocks * layout.subblocks, out.scales,
                            out.minima);
    } else if constexpr (layout.super_blocks) {
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
