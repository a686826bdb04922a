#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "kernels/quant.hpp"
#include "tests/kernels/quant_rows.hpp"

namespace rondo {
namespace {

std::vector<float> dequantized(const test::QuantRows& rows, int64_t row) {
    std::vector<float> out(static_cast<size_t>(rows.columns));
    dequantize_row(rows.type, rows.row(row), out.data(), rows.columns);
    return out;
}

TEST(QuantFormat, HalfToFloatIsExactForEveryBitPattern) {
    for (int bits = 0; bits < 65536; ++bits) {
        const double expected = test::f16_value(static_cast<uint16_t>(bits));
        const float actual = f16_to_f32(static_cast<uint16_t>(bits));
        if (std::isnan(expected)) {
            ASSERT_TRUE(std::isnan(actual)) << bits;
        } else {
            ASSERT_EQ(actual, expected) << bits;
            ASSERT_EQ(std::signbit(actual), (bits & 0x8000) != 0) << bits;
        }
    }
}

TEST(QuantFormat, DequantizesWhatTheHandMadeEncoderWrote) {
    for (const DType type : test::quantized_types) {
        const test::QuantRows rows = test::random_rows(type, 40, 512, 7);
        for (int64_t i = 0; i < rows.rows; ++i) {
            const std::vector<float> out = dequantized(rows, i);
            // Every product and sum fits a float's 24 bits up to one last rounding.
            for (int64_t k = 0; k < rows.columns; ++k) {
                ASSERT_EQ(out[static_cast<size_t>(k)], static_cast<float>(rows.value(i, k)))
                    << traits(type).name << " row " << i << " column " << k;
            }
        }
    }
}

TEST(QuantFormat, EveryCodeOfEveryPositionIsRead) {
    for (const DType type : test::quantized_types) {
        const int elements = traits(type).block_elements;
        test::QuantRows rows;
        rows.type = type;
        rows.columns = elements;
        for (int position = 0; position < elements; ++position) {
            test::BlockParts parts;
            parts.d = 0x3C00;  // 1
            parts.scales.fill(1);
            parts.codes[position] = (1 << test::code_bits(type)) - 1;
            test::add_block(rows, parts);
        }
        for (int position = 0; position < elements; ++position) {
            const std::vector<float> out = dequantized(rows, position);
            for (int k = 0; k < elements; ++k) {
                ASSERT_EQ(out[k], static_cast<float>(rows.value(position, k))) << traits(type).name << " " << k;
            }
        }
    }
}

TEST(QuantFormat, ExtremeScalesKeepTheirMeaning) {
    for (const DType type : test::quantized_types) {
        for (const int d : {0x0001, 0x03FF, 0x8001, 0x7BFF, 0xFBFF, 0x0000}) {
            std::mt19937 random(3);
            test::BlockParts parts = test::random_parts(type, random);
            parts.d = static_cast<uint16_t>(d);
            parts.m = 0x0001;
            test::QuantRows rows;
            rows.type = type;
            rows.columns = traits(type).block_elements;
            test::add_block(rows, parts);
            const std::vector<float> out = dequantized(rows, 0);
            for (int64_t k = 0; k < rows.columns; ++k) {
                ASSERT_EQ(out[static_cast<size_t>(k)], static_cast<float>(rows.value(0, k))) << traits(type).name;
            }
        }
        for (const int d : {0x7C00, 0xFC00, 0x7E00}) {  // infinite, NaN: whatever comes out is not a finite weight
            std::mt19937 random(3);
            test::BlockParts parts = test::random_parts(type, random);
            parts.scales.fill(1);
            parts.d = static_cast<uint16_t>(d);
            test::QuantRows rows;
            rows.type = type;
            rows.columns = traits(type).block_elements;
            test::add_block(rows, parts);
            for (const float value : dequantized(rows, 0)) ASSERT_FALSE(std::isfinite(value)) << traits(type).name;
        }
    }
}

TEST(QuantFormat, PlainTypesWidenExactly) {
    const float floats[] = {1.5F, -0.0F, 3e38F};
    const uint16_t bf16[] = {0x3FC0, 0xFF80, 0x0001};
    const uint16_t f16[] = {0x3E00, 0x8001, 0x7C00};
    float out[3];
    dequantize_row(DType::f32, reinterpret_cast<const std::byte*>(floats), out, 3);
    EXPECT_EQ(out[2], 3e38F);
    dequantize_row(DType::bf16, reinterpret_cast<const std::byte*>(bf16), out, 3);
    EXPECT_EQ(out[0], 1.5F);
    EXPECT_EQ(out[1], -INFINITY);
    EXPECT_EQ(out[2], std::bit_cast<float>(0x00010000U));
    dequantize_row(DType::f16, reinterpret_cast<const std::byte*>(f16), out, 3);
    EXPECT_EQ(out[0], 1.5F);
    EXPECT_EQ(out[1], -std::ldexp(1.0F, -24));
    EXPECT_EQ(out[2], INFINITY);
}

}  // namespace
}  // namespace rondo
