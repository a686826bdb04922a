#pragma once

#include <cstdint>

#include "config/checked.hpp"
#include "kernels/quant.hpp"

namespace rondo::cpu {

/// How quantized weights lie once packed. Sixteen output rows form a group, so that one 512-bit register holds 16 rows
/// × 4 consecutive inputs (a "quad"). A group runs through its inputs in chunks of up to 256 (8 blocks of 32); groups
/// and chunks follow each other without gaps, so a product reads one forward stream. A chunk of `blocks` blocks is
///   codes       [blocks] of 64·code_bits bytes: nibbles or bytes, then the planes of higher bits
///                 8 bits: byte 64q + 4r + j is the code of row r, input 4q + j
///                 else:   byte 64i + 4r + j (i < 4) has quad i in its low nibble, quad i + 4 in its high one; then
///                 5 bits: byte 4r + j has the fifth bit of quad q at bit q
///                 6 bits: byte 64p + 4r + j has the two high bits of quad 4p + t at bits 2t
///                 2 and 3 bits have no nibbles: their low two bits lie as the high two of 6 bits do, then the third
///                 bits as the fifth of 5
///   d           f16 [blocks][16], or [16] where a chunk is one super-block
///   m           f16, as d; only with minima; the value that is added (q4_k and q5_k subtract theirs: stored negated)
///   scales      i8 [blocks · subblocks][16], super-blocks only
///   mins        i8 [blocks][16], super-blocks with minima only; q2_k has them in the high nibbles of its scales
/// and zeros up to a multiple of 64 bytes.
struct QuantLayout {
    int code_bits = 0;
    bool minima = false;
    bool super_blocks = false;
    bool codebook = false;       ///< codes are places in quant_codebook
    bool scale_nibbles = false;  ///< a scale and a minimum share a byte
    int subblocks = 1;           ///< scales in a block of 32 inputs
    int offset = 0;              ///< subtracted from a code

    constexpr int64_t code_bytes() const { return int64_t{64} * code_bits; }
    constexpr int64_t d_offset(int64_t blocks) const { return blocks * code_bytes(); }
    constexpr int64_t m_offset(int64_t blocks) const { return d_offset(blocks) + d_bytes(blocks); }
    constexpr int64_t scales_offset(int64_t blocks) const { return m_offset(blocks) + (minima ? d_bytes(blocks) : 0); }
    constexpr int64_t mins_offset(int64_t blocks) const {
        return scales_offset(blocks) + (super_blocks ? blocks * subblocks * 16 : 0);
    }
    constexpr int64_t chunk_bytes(int64_t blocks) const {
        return round_up<int64_t>(mins_offset(blocks) + (super_blocks && minima && !scale_nibbles ? blocks * 16 : 0),
                                 64);
    }
    constexpr int64_t group_bytes(int64_t columns) const {
        const int64_t rest = columns % 256 / 32;
        return columns / 256 * chunk_bytes(8) + (rest != 0 ? chunk_bytes(rest) : 0);
    }

private:
    constexpr int64_t d_bytes(int64_t blocks) const { return super_blocks ? 32 : blocks * 32; }
};

inline constexpr int64_t quant_group_rows = 16;
inline constexpr int64_t quant_block = 32;  ///< inputs under one activation scale
inline constexpr int64_t quant_chunk_blocks = 8;

constexpr QuantLayout quant_layout(DType type) {
    QuantLayout layout;
    layout.offset = quant_offset(type);
    layout.minima = layout.offset == 0;
    layout.super_blocks = traits(type).block_elements == quant_block_max;
    layout.subblocks = quant_subblock(type) == 16 ? 2 : 1;
    layout.codebook = has_codebook(type);
    layout.scale_nibbles = type == DType::q2_k;
    layout.code_bits = type == DType::q8_0                          ? 8
                       : type == DType::q6_k                        ? 6
                       : type == DType::q5_0 || type == DType::q5_1 ? 5
                       : type == DType::q5_k                        ? 5
                       : type == DType::q3_k                        ? 3
                       : type == DType::q2_k                        ? 2
                                                                    : 4;
    return layout;
}

/// Calls f.operator()<Type>() with the quantized type as a constant; does nothing for any other type.
template <class F>
void with_quant_type(DType type, const F& f) {
    switch (type) {
        case DType::q8_0:
            return f.template operator()<DType::q8_0>();
        case DType::q4_0:
            return f.template operator()<DType::q4_0>();
        case DType::q4_1:
            return f.template operator()<DType::q4_1>();
        case DType::q5_0:
            return f.template operator()<DType::q5_0>();
        case DType::q5_1:
            return f.template operator()<DType::q5_1>();
        case DType::q4_k:
            return f.template operator()<DType::q4_k>();
        case DType::q5_k:
            return f.template operator()<DType::q5_k>();
        case DType::q6_k:
            return f.template operator()<DType::q6_k>();
        case DType::q2_k:
            return f.template operator()<DType::q2_k>();
        case DType::q3_k:
            return f.template operator()<DType::q3_k>();
        case DType::iq4_nl:
            return f.template operator()<DType::iq4_nl>();
        case DType::iq4_xs:
            return f.template operator()<DType::iq4_xs>();
        default:
            return;
    }
}

}  // namespace rondo::cpu
