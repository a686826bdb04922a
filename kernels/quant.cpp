#include "kernels/quant.hpp"

#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

namespace rondo {
namespace {

uint16_t load_u16(const uint8_t* bytes) {
    return static_cast<uint16_t>(bytes[0] | bytes[1] << 8);
}

/// 16 bytes of nibbles: the low ones are elements 0…15, the high ones 16…31.
void read_nibbles_32(const uint8_t* nibbles, uint8_t* codes) {
    for (int i = 0; i < 16; ++i) {
        codes[i] = nibbles[i] & 0x0F;
        codes[i + 16] = nibbles[i] >> 4;
    }
}

/// Four bytes of fifth bits, one for each of 32 elements, first element lowest. Eight at a time: each byte of the word
/// keeps its own bit, and whether it is set is carried into the byte's top bit.
void read_fifth_bits_32(const uint8_t* bits, uint8_t* codes) {
    for (int i = 0; i < 4; ++i) {
        const uint64_t own_bit = bits[i] * 0x0101010101010101U & 0x8040201008040201U;
        const uint64_t set = (own_bit + 0x7F7F7F7F7F7F7F7FU) >> 3 & 0x1010101010101010U;
        uint64_t word;
        std::memcpy(&word, codes + 8 * i, 8);
        word |= set;
        std::memcpy(codes + 8 * i, &word, 8);
    }
}

/// 128 bytes of nibbles of a 256-element super-block: each 32 bytes hold 64 elements, low nibbles first.
void read_nibbles_256(const uint8_t* nibbles, uint8_t* codes) {
    for (int chunk = 0; chunk < 4; ++chunk) {
        for (int i = 0; i < 32; ++i) {
            codes[chunk * 64 + i] = nibbles[chunk * 32 + i] & 0x0F;
            codes[chunk * 64 + 32 + i] = nibbles[chunk * 32 + i] >> 4;
        }
    }
}

/// The 12 bytes of 6-bit scales and minima of q4_k and q5_k. Sub-blocks 0…3 lie in the low six bits of bytes 0…3
/// (scales) and 4…7 (minima); 4…7 have their low nibbles in bytes 8…11 and their two high bits above the others.
void read_scales_6bit(const uint8_t* packed, QuantBlock& out) {
    for (int j = 0; j < 4; ++j) {
        out.scales[j] = static_cast<int8_t>(packed[j] & 63);
        out.mins[j] = packed[j + 4] & 63;
        out.scales[j + 4] = static_cast<int8_t>((packed[j + 8] & 0x0F) | packed[j] >> 6 << 4);
        out.mins[j + 4] = static_cast<uint8_t>(packed[j + 8] >> 4 | packed[j + 4] >> 6 << 4);
    }
}

void take_apart_q5_k(const uint8_t* block, QuantBlock& out) {
    const uint8_t* high = block + 16;  // bit j of byte i: the fifth bit of element i of sub-block j
    out.d = load_u16(block);
    out.m = load_u16(block + 2);
    read_scales_6bit(block + 4, out);
    read_nibbles_256(block + 48, out.codes.data());
    uint64_t words[4];
    std::memcpy(words, high, sizeof(words));
    for (int j = 0; j < 8; ++j) {
        for (int i = 0; i < 4; ++i) {
            uint64_t word;
            std::memcpy(&word, &out.codes[j * 32 + i * 8], 8);
            word |= (words[i] >> j & 0x0101010101010101U) << 4;
            std::memcpy(&out.codes[j * 32 + i * 8], &word, 8);
        }
    }
}

/// Each half (128 elements) has 64 bytes of nibbles, 32 bytes of high bits (four elements a byte) and 8 scales.
void take_apart_q6_k(const uint8_t* block, QuantBlock& out) {
    for (int half = 0; half < 2; ++half) {
        const uint8_t* low = block + half * 64;
        const uint8_t* high = block + 128 + half * 32;
        uint8_t* codes = out.codes.data() + half * 128;
        for (int i = 0; i < 32; ++i) {
            codes[i] = static_cast<uint8_t>((low[i] & 0x0F) | (high[i] & 3) << 4);
            codes[i + 32] = static_cast<uint8_t>((low[i + 32] & 0x0F) | (high[i] >> 2 & 3) << 4);
            codes[i + 64] = static_cast<uint8_t>(low[i] >> 4 | (high[i] >> 4 & 3) << 4);
            codes[i + 96] = static_cast<uint8_t>(low[i + 32] >> 4 | high[i] >> 6 << 4);
        }
    }
    std::memcpy(out.scales.data(), block + 192, 16);
    out.d = load_u16(block + 208);
}

/// Each half (128 elements) has 32 bytes, a byte for every 32nd element: the first in its lowest two bits.
void read_pairs_256(const uint8_t* pairs, uint8_t* codes) {
    for (int half = 0; half < 2; ++half) {
        for (int j = 0; j < 4; ++j) {
            for (int i = 0; i < 32; ++i) codes[half * 128 + j * 32 + i] = pairs[half * 32 + i] >> 2 * j & 3;
        }
    }
}

/// A scale in the low nibble of each of the first 16 bytes, a minimum in the high one.
void take_apart_q2_k(const uint8_t* block, QuantBlock& out) {
    for (int j = 0; j < 16; ++j) {
        out.scales[j] = static_cast<int8_t>(block[j] & 0x0F);
        out.mins[j] = block[j] >> 4;
    }
    read_pairs_256(block + 16, out.codes.data());
    out.d = load_u16(block + 80);
    out.m = load_u16(block + 82);
}

/// Third bits first: bit j of byte i is that of element 32j + i. Of the 12 bytes of scales, byte j < 8 holds the low
/// nibbles of scales j and j + 8. The high two bits of scale j stand in byte 8 + j % 4, from bit 2 · (j / 4) on.
void take_apart_q3_k(const uint8_t* block, QuantBlock& out) {
    const uint8_t* scales = block + 96;
    read_pairs_256(block + 32, out.codes.data());
    for (int j = 0; j < 8; ++j) {
        for (int i = 0; i < 32; ++i) {
            const int bit = block[i] >> j & 1;
            out.codes[j * 32 + i] = static_cast<uint8_t>(out.codes[j * 32 + i] | bit << 2);
        }
    }
    for (int j = 0; j < 16; ++j) {
        const int low = scales[j % 8] >> 4 * (j / 8) & 0x0F;
        const int high = scales[8 + j % 4] >> 2 * (j / 4) & 3;
        out.scales[j] = static_cast<int8_t>((low | high << 4) - 32);
    }
    out.d = load_u16(block + 108);
}

/// Scales of six bits: their high pairs in two bytes, then their low nibbles in four.
void take_apart_iq4_xs(const uint8_t* block, QuantBlock& out) {
    const int high_bits = load_u16(block + 2);
    for (int j = 0; j < 8; ++j) {
        const int low = block[4 + j / 2] >> 4 * (j % 2) & 0x0F;
        out.scales[j] = static_cast<int8_t>((low | (high_bits >> 2 * j & 3) << 4) - 32);
        read_nibbles_32(block + 8 + 16 * j, out.codes.data() + 32 * j);
    }
}

void dequantize_block(DType type, const QuantBlock& block, float* out) {
    const bool super_block = traits(type).block_elements == quant_block_max;
    const int subblock = quant_subblock(type);
    const int offset = quant_offset(type);
    const float d = f16_to_f32(block.d);
    const float m = f16_to_f32(block.m);
    for (int j = 0; j < traits(type).block_elements / subblock; ++j) {
        const float scale = super_block ? d * static_cast<float>(block.scales[j]) : d;
        const float minimum = super_block ? -(m * static_cast<float>(block.mins[j])) : m;
        for (int i = j * subblock; i < (j + 1) * subblock; ++i) {
            const int u = has_codebook(type) ? quant_codebook[block.codes[i]] : block.codes[i];
            const float code = static_cast<float>(u - offset);
            out[i] = offset != 0 ? scale * code : scale * code + minimum;
        }
    }
}

}  // namespace

float f16_to_f32(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    const uint32_t exponent = bits >> 10 & 0x1FU;
    const uint32_t mantissa = bits & 0x3FFU;
    if (exponent == 0) {  // subnormal: mantissa · 2^-24, exact
        const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
        return sign != 0 ? -magnitude : magnitude;
    }
    const uint32_t wide_exponent = exponent == 0x1FU ? 0xFFU : exponent + 112;
    return std::bit_cast<float>(sign | wide_exponent << 23 | mantissa << 13);
}

void take_apart(DType type, const std::byte* bytes, QuantBlock& out) {
    const auto* block = reinterpret_cast<const uint8_t*>(bytes);
    out.d = load_u16(block);
    switch (type) {
        case DType::q8_0:
            for (int i = 0; i < 32; ++i) out.codes[i] = block[2 + i] ^ 0x80;  // q + 128 in two's complement
            return;
        case DType::q4_0:
        case DType::iq4_nl:
            read_nibbles_32(block + 2, out.codes.data());
            return;
        case DType::q4_1:
            out.m = load_u16(block + 2);
            read_nibbles_32(block + 4, out.codes.data());
            return;
        case DType::q5_0:
            read_nibbles_32(block + 6, out.codes.data());
            read_fifth_bits_32(block + 2, out.codes.data());
            return;
        case DType::q5_1:
            out.m = load_u16(block + 2);
            read_nibbles_32(block + 8, out.codes.data());
            read_fifth_bits_32(block + 4, out.codes.data());
            return;
        case DType::q4_k:
            out.m = load_u16(block + 2);
            read_scales_6bit(block + 4, out);
            read_nibbles_256(block + 16, out.codes.data());
            return;
        case DType::q5_k:
            take_apart_q5_k(block, out);
            return;
        case DType::q6_k:
            take_apart_q6_k(block, out);
            return;
        case DType::q2_k:
            take_apart_q2_k(block, out);
            return;
        case DType::q3_k:
            take_apart_q3_k(block, out);
            return;
        case DType::iq4_xs:
            take_apart_iq4_xs(block, out);
            return;
        default:
            assert(!"not a quantized type");
    }
}

void dequantize_row(DType type, const std::byte* row, float* out, int64_t columns) {
    assert(columns % traits(type).block_elements == 0);
    if (type == DType::f32) {
        std::memcpy(out, row, static_cast<size_t>(columns) * sizeof(float));
        return;
    }
    if (!is_quantized(type)) {
        assert(type == DType::bf16 || type == DType::f16);
        const auto* bytes = reinterpret_cast<const uint8_t*>(row);
        for (int64_t i = 0; i < columns; ++i) {
            const uint16_t bits = load_u16(bytes + 2 * i);
            out[i] = type == DType::f16 ? f16_to_f32(bits) : std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
        }
        return;
    }
    const DTypeTraits shape = traits(type);
    QuantBlock block;
    for (int64_t i = 0; i < columns; i += shape.block_elements, row += shape.block_bytes) {
        take_apart(type, row, block);
        dequantize_block(type, block, out + i);
    }
}

}  // namespace rondo
