#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.hpp"

namespace rondo {

/// IEEE half to float, exact for every bit pattern (subnormal, infinite, NaN).
float f16_to_f32(uint16_t bits);

constexpr int quant_block_max = 256;     ///< elements of the longest block (the k-quants' super-block)
constexpr int quant_subblocks_max = 16;  ///< scales of one block

/// One block of a quantized row, taken apart. Every type is read as unsigned codes u under an affine map, with one
/// scale for each `quant_subblock` elements (sub-block j):
///   q8_0 q4_0 q5_0    w = d · (u − quant_offset)
///   q4_1 q5_1         w = d · u + m
///   q2_k q4_k q5_k    w = (d · scales[j]) · u − m · mins[j]
///   q3_k q6_k         w = (d · scales[j]) · (u − quant_offset)
///   iq4_nl            w = d · (quant_codebook[u] − quant_offset)
///   iq4_xs            w = (d · scales[j]) · (quant_codebook[u] − quant_offset)
struct QuantBlock {
    std::array<uint8_t, quant_block_max> codes;      ///< in the order of the row's elements
    uint16_t d = 0;                                  ///< f16 bits
    uint16_t m = 0;                                  ///< f16 bits; types with minima only
    std::array<int8_t, quant_subblocks_max> scales;  ///< 0…15 q2_k, 0…63 q4_k q5_k, −32…31 q3_k iq4_xs, any q6_k
    std::array<uint8_t, quant_subblocks_max> mins;   ///< 0…15 (q2_k), 0…63 (q4_k, q5_k)
};

/// Elements under one scale.
constexpr int quant_subblock(DType type) {
    return type == DType::q2_k || type == DType::q3_k || type == DType::q6_k ? 16 : 32;
}

/// Whether a code is a place in quant_codebook instead of a number.
constexpr bool has_codebook(DType type) {
    return type == DType::iq4_nl || type == DType::iq4_xs;
}

/// The sixteen values of the iq4 types, closer together about zero: the format's own, plus 128 (their quant_offset).
inline constexpr std::array<uint8_t, 16> quant_codebook = {1,   24,  45,  63,  79,  93,  106, 118,
                                                           129, 141, 153, 166, 181, 197, 217, 241};

/// What turns an unsigned code into the file's signed one; 0 for types that carry minima.
constexpr int quant_offset(DType type) {
    switch (type) {
        case DType::q8_0:
            return 128;
        case DType::q4_0:
            return 8;
        case DType::q5_0:
            return 16;
        case DType::q6_k:
            return 32;
        case DType::q3_k:
            return 4;
        case DType::iq4_nl:
        case DType::iq4_xs:
            return 128;
        default:
            return 0;
    }
}

/// Reads one block of a quantized type; `block` holds traits(type).block_bytes bytes, unaligned, with any contents.
void take_apart(DType type, const std::byte* block, QuantBlock& out);

/// A row as floats: the plain reference that every kernel is measured against. Any weight type (f32, bf16, f16 and the
/// quantized ones); `columns` is a multiple of the type's block; `row` may be unaligned.
void dequantize_row(DType type, const std::byte* row, float* out, int64_t columns);

}  // namespace rondo
