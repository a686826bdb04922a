#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/dtype.hpp"

namespace rondo::test {

inline constexpr std::array quantized_types = {DType::q8_0, DType::q4_0, DType::q4_1,   DType::q5_0,
                                               DType::q5_1, DType::q4_k, DType::q5_k,   DType::q6_k,
                                               DType::q2_k, DType::q3_k, DType::iq4_nl, DType::iq4_xs};

/// What the sixteen codes of the iq4 types stand for.
inline constexpr std::array iq4_values = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// The value of an f16 from its definition.
inline double f16_value(uint16_t bits) {
    const int exponent = bits >> 10 & 31;
    const double mantissa = bits & 1023;
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    if (exponent == 31) return mantissa != 0 ? std::nan("") : sign * INFINITY;
    return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

/// Rows of a quantized weight, encoded by hand element by element, beside the values they stand for.
struct QuantRows {
    DType type = DType::q8_0;
    int64_t rows = 0;
    int64_t columns = 0;
    std::vector<std::byte> bytes;
    std::vector<double> values;      ///< [rows, columns]
    std::vector<double> magnitudes;  ///< |scale · code| + |minimum|: what rounding errors are relative to

    const std::byte* row(int64_t i) const { return bytes.data() + static_cast<size_t>(i) * bytes_of(type, columns); }
    double value(int64_t i, int64_t k) const { return values[static_cast<size_t>(i * columns + k)]; }
    double magnitude(int64_t i, int64_t k) const { return magnitudes[static_cast<size_t>(i * columns + k)]; }
};

/// What one block is made of before it is encoded; `codes` are unsigned, `scales` as the format stores them.
struct BlockParts {
    uint16_t d = 0, m = 0;
    std::array<int, 256> codes{};
    std::array<int, 16> scales{}, mins{};
};

inline int code_bits(DType type) {
    switch (type) {
        case DType::q8_0:
            return 8;
        case DType::q6_k:
            return 6;
        case DType::q5_0:
        case DType::q5_1:
        case DType::q5_k:
            return 5;
        case DType::q3_k:
            return 3;
        case DType::q2_k:
            return 2;
        default:
            return 4;
    }
}

inline void put_u16(uint8_t* at, uint16_t value) {
    at[0] = static_cast<uint8_t>(value);
    at[1] = static_cast<uint8_t>(value >> 8);
}

inline void put_bits(uint8_t* at, int value, int shift) {
    *at = static_cast<uint8_t>(*at | value << shift);
}

inline void encode_small(DType type, const BlockParts& parts, uint8_t* block) {
    const bool with_m = type == DType::q4_1 || type == DType::q5_1;
    put_u16(block, parts.d);
    if (with_m) put_u16(block + 2, parts.m);
    uint8_t* at = block + (with_m ? 4 : 2);
    for (int i = 0; i < 32; ++i) {
        const int code = parts.codes[i];
        if (type == DType::q8_0) {
            at[i] = static_cast<uint8_t>(static_cast<int8_t>(code - 128));
            continue;
        }
        if (code_bits(type) == 5) put_bits(at + i / 8, code >> 4, i % 8);
        put_bits(at + (code_bits(type) == 5 ? 4 : 0) + i % 16, code & 15, i / 16 * 4);
    }
}

inline void encode_q2_k(const BlockParts& parts, uint8_t* block) {
    for (int j = 0; j < 16; ++j) block[j] = static_cast<uint8_t>(parts.scales[j] | parts.mins[j] << 4);
    for (int i = 0; i < 256; ++i) put_bits(block + 16 + i / 128 * 32 + i % 32, parts.codes[i], i % 128 / 32 * 2);
    put_u16(block + 80, parts.d);
    put_u16(block + 82, parts.m);
}

inline void encode_q3_k(const BlockParts& parts, uint8_t* block) {
    for (int i = 0; i < 256; ++i) {
        put_bits(block + i % 32, parts.codes[i] >> 2, i / 32);
        put_bits(block + 32 + i / 128 * 32 + i % 32, parts.codes[i] & 3, i % 128 / 32 * 2);
    }
    for (int j = 0; j < 16; ++j) {
        const int scale = parts.scales[j] + 32;
        put_bits(block + 96 + j % 8, scale & 15, j / 8 * 4);
        put_bits(block + 104 + j % 4, scale >> 4, j / 4 * 2);
    }
    put_u16(block + 108, parts.d);
}

inline void encode_iq4_xs(const BlockParts& parts, uint8_t* block) {
    put_u16(block, parts.d);
    for (int j = 0; j < 8; ++j) {
        const int scale = parts.scales[j] + 32;
        put_bits(block + 2 + j / 4, scale >> 4, j % 4 * 2);
        put_bits(block + 4 + j / 2, scale & 15, j % 2 * 4);
    }
    for (int i = 0; i < 256; ++i) put_bits(block + 8 + i / 32 * 16 + i % 16, parts.codes[i], i / 16 % 2 * 4);
}

inline void encode_super(DType type, const BlockParts& parts, uint8_t* block) {
    if (type == DType::q2_k) return encode_q2_k(parts, block);
    if (type == DType::q3_k) return encode_q3_k(parts, block);
    if (type == DType::iq4_xs) return encode_iq4_xs(parts, block);
    if (type == DType::q6_k) {
        for (int i = 0; i < 256; ++i) {
            const int half = i / 128;
            const int l = i % 128;
            put_bits(block + half * 64 + l % 64, parts.codes[i] & 15, l / 64 * 4);
            put_bits(block + 128 + half * 32 + l % 32, parts.codes[i] >> 4, l / 32 * 2);
        }
        for (int j = 0; j < 16; ++j) block[192 + j] = static_cast<uint8_t>(parts.scales[j]);
        put_u16(block + 208, parts.d);
        return;
    }
    put_u16(block, parts.d);
    put_u16(block + 2, parts.m);
    for (int j = 0; j < 4; ++j) {
        block[4 + j] = static_cast<uint8_t>(parts.scales[j] | (parts.scales[j + 4] >> 4) << 6);
        block[8 + j] = static_cast<uint8_t>(parts.mins[j] | (parts.mins[j + 4] >> 4) << 6);
        block[12 + j] = static_cast<uint8_t>((parts.scales[j + 4] & 15) | (parts.mins[j + 4] & 15) << 4);
    }
    uint8_t* nibbles = block + (type == DType::q5_k ? 48 : 16);
    for (int i = 0; i < 256; ++i) {
        put_bits(nibbles + i / 64 * 32 + i % 32, parts.codes[i] & 15, i / 32 % 2 * 4);
        if (type == DType::q5_k) put_bits(block + 16 + i % 32, parts.codes[i] >> 4, i / 32);
    }
}

/// Elements under one scale.
inline int scale_elements(DType type) {
    return type == DType::q2_k || type == DType::q3_k || type == DType::q6_k ? 16 : 32;
}

/// What the sub-block's scale is multiplied by.
inline int code_value(DType type, int code) {
    if (type == DType::iq4_nl || type == DType::iq4_xs) return iq4_values[static_cast<size_t>(code)];
    return code - (type == DType::q4_0   ? 8
                   : type == DType::q5_0 ? 16
                   : type == DType::q8_0 ? 128
                   : type == DType::q6_k ? 32
                   : type == DType::q3_k ? 4
                                         : 0);
}

inline bool has_minima(DType type) {
    return type == DType::q4_1 || type == DType::q5_1 || type == DType::q2_k || type == DType::q4_k ||
           type == DType::q5_k;
}

inline void add_block(QuantRows& out, const BlockParts& parts) {
    const DTypeTraits shape = traits(out.type);
    std::vector<uint8_t> block(static_cast<size_t>(shape.block_bytes), 0);
    const bool super = shape.block_elements == 256;
    super ? encode_super(out.type, parts, block.data()) : encode_small(out.type, parts, block.data());
    const auto* encoded = reinterpret_cast<const std::byte*>(block.data());
    out.bytes.insert(out.bytes.end(), encoded, encoded + block.size());
    for (int i = 0; i < shape.block_elements; ++i) {
        const int j = i / scale_elements(out.type);
        double scale = f16_value(parts.d);
        double minimum = has_minima(out.type) ? f16_value(parts.m) : 0;
        if (super) scale *= parts.scales[j];
        if (super && has_minima(out.type)) minimum *= -parts.mins[j];
        const double product = scale * code_value(out.type, parts.codes[i]);
        out.values.push_back(product + minimum);
        out.magnitudes.push_back(std::abs(product) + std::abs(minimum));
    }
}

/// Blocks with random codes and scales of everyday size; every code value and sign occurs.
inline BlockParts random_parts(DType type, std::mt19937& random) {
    const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    BlockParts parts;
    parts.d = static_cast<uint16_t>(below(2) << 15 | (8 + below(4)) << 10 | below(1024));
    parts.m = static_cast<uint16_t>(below(2) << 15 | (8 + below(4)) << 10 | below(1024));
    for (int& code : parts.codes) code = below(1 << code_bits(type));
    const bool six_signed = type == DType::q3_k || type == DType::iq4_xs;
    for (int& scale : parts.scales) {
        scale = type == DType::q6_k   ? below(256) - 128
                : six_signed          ? below(64) - 32
                : type == DType::q2_k ? below(16)
                                      : below(64);
    }
    for (int& minimum : parts.mins) minimum = below(type == DType::q2_k ? 16 : 64);
    return parts;
}

inline QuantRows random_rows(DType type, int64_t rows, int64_t columns, uint32_t seed) {
    std::mt19937 random(seed);
    QuantRows out;
    out.type = type;
    out.rows = rows;
    out.columns = columns;
    for (int64_t i = 0; i < rows * columns / traits(type).block_elements; ++i)
        add_block(out, random_parts(type, random));
    return out;
}

inline constexpr uint16_t half_one = 0x3C00, half_infinity = 0x7C00, half_minus_infinity = 0xFC00, half_nan = 0x7E01;
inline constexpr uint16_t half_zero = 0x0000, half_minus_zero = 0x8000, half_subnormal = 0x0003;

/// Scales and minima that are no ordinary numbers. The minimum is left out where a type has none.
struct OddScales {
    uint16_t d, m;
};
inline constexpr std::array odd_scales = {
    OddScales{half_infinity, half_one},  OddScales{half_minus_infinity, half_one},
    OddScales{half_nan, half_one},       OddScales{half_subnormal, half_one},
    OddScales{half_zero, half_one},      OddScales{half_minus_zero, half_one},
    OddScales{half_one, half_infinity},  OddScales{half_one, half_minus_infinity},
    OddScales{half_one, half_nan},       OddScales{half_one, half_subnormal},
    OddScales{half_one, half_zero},      OddScales{half_zero, half_zero},
    OddScales{half_zero, half_infinity}, OddScales{half_infinity, half_infinity},
    OddScales{half_zero, half_nan},      OddScales{half_subnormal, half_subnormal}};

constexpr bool is_odd_row(int64_t row) {
    return row % 2 == 1 && row / 2 < std::ssize(odd_scales);
}

inline int64_t odd_row_columns(DType type) {
    return 3 * traits(type).block_elements;
}

/// 35 rows of three blocks. With `odd`, each row that is_odd_row names has one of odd_scales in its second block;
/// everything else is the same without.
inline QuantRows rows_with_odd_blocks(DType type, bool odd) {
    std::mt19937 random(17);
    QuantRows out;
    out.type = type;
    out.rows = 35;
    out.columns = odd_row_columns(type);
    for (int64_t block = 0; block < 3 * out.rows; ++block) {
        BlockParts parts = random_parts(type, random);
        if (odd && block % 3 == 1 && is_odd_row(block / 3)) {
            const OddScales& scales = odd_scales[static_cast<size_t>(block / 6)];
            parts.d = scales.d;
            parts.m = scales.m;
        }
        add_block(out, parts);
    }
    return out;
}

/// Activations with a few outliers, as transformers have them.
inline std::vector<float> random_activations(int64_t count, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> out(static_cast<size_t>(count));
    for (float& value : out) value = normal(random) * (random() % 64 == 0 ? 20.0F : 1.0F);
    return out;
}

}  // namespace rondo::test
