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

inline constexpr std::array quantized_types = {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0,
                                               DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k};

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

inline void encode_super(DType type, const BlockParts& parts, uint8_t* block) {
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

inline void add_block(QuantRows& out, const BlockParts& parts) {
    const DTypeTraits shape = traits(out.type);
    std::vector<uint8_t> block(static_cast<size_t>(shape.block_bytes), 0);
    const bool super = shape.block_elements == 256;
    super ? encode_super(out.type, parts, block.data()) : encode_small(out.type, parts, block.data());
    const auto* encoded = reinterpret_cast<const std::byte*>(block.data());
    out.bytes.insert(out.bytes.end(), encoded, encoded + block.size());
    const int zero = out.type == DType::q4_0   ? 8
                     : out.type == DType::q5_0 ? 16
                     : out.type == DType::q8_0 ? 128
                     : out.type == DType::q6_k ? 32
                                               : 0;
    for (int i = 0; i < shape.block_elements; ++i) {
        double scale = f16_value(parts.d);
        double minimum = zero != 0 ? 0 : f16_value(parts.m);
        if (super) scale *= parts.scales[out.type == DType::q6_k ? i / 16 : i / 32];
        if (super && zero == 0) minimum *= -parts.mins[i / 32];
        const double product = scale * (parts.codes[i] - zero);
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
    for (int& scale : parts.scales) scale = type == DType::q6_k ? below(256) - 128 : below(64);
    for (int& minimum : parts.mins) minimum = below(64);
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

/// Activations with a few outliers, as transformers have them.
inline std::vector<float> random_activations(int64_t count, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> out(static_cast<size_t>(count));
    for (float& value : out) value = normal(random) * (random() % 64 == 0 ? 20.0F : 1.0F);
    return out;
}

}  // namespace rondo::test
