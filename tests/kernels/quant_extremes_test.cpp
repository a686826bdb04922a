#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/quant_products.hpp"
#include "tests/kernels/quant_rows.hpp"

namespace rondo::test {
namespace {

/// Number i of a row. The row decides which numbers it has: the largest alone, the least alone, both in turn (singly or
/// in twos), the middle, or any. Each block of 32 has the largest or the least at least once.
int extreme(int64_t row, int64_t i, int least, int largest, std::mt19937& random) {
    switch (row % 6) {
        case 0:
            return largest;
        case 1:
            return least;
        case 2:
            return i % 2 == 0 ? largest : least;
        case 3:
            return i / 2 % 2 == 0 ? largest : least;
        case 4:
            return i % 32 == 0 ? least : (least + largest + 1) / 2;
        default:
            if (i % 32 == 31) return largest;
            return least + static_cast<int>(random() % static_cast<unsigned>(largest - least + 1));
    }
}

/// Weights of every extreme with scales and minima of one.
QuantRows extreme_rows(DType type, int64_t rows, int64_t columns) {
    std::mt19937 random(23);
    QuantRows out;
    out.type = type;
    out.rows = rows;
    out.columns = columns;
    const int64_t block = traits(type).block_elements;
    for (int64_t n = 0; n < rows; ++n) {
        for (int64_t k = 0; k < columns; k += block) {
            BlockParts parts;
            parts.d = parts.m = half_one;
            parts.scales.fill(1);
            parts.mins.fill(1);
            for (int64_t i = 0; i < block; ++i)
                parts.codes[static_cast<size_t>(i)] = extreme(n, k + i, 0, (1 << code_bits(type)) - 1, random);
            add_block(out, parts);
        }
    }
    return out;
}

/// Nothing is rounded here: an activation is its own code where the largest of its block is 127, and a float holds each
/// sum exactly. So the test notices a wrong sign, and a sum that 16 bits cannot hold.
TEST(QuantExtremes, TheLargestCodesGiveExactProducts) {
    constexpr int64_t rows = 13, outputs = 35;  // four rows are multiplied at a time, and one is left
    for_each_tier([](const std::string&, bool) {
        for (const DType type : quantized_types) {
            const int64_t columns = traits(type).block_elements == 256 ? 512 : 288;
            const QuantRows weight = extreme_rows(type, outputs, columns);
            const Packed packed(weight, {});
            std::mt19937 random(29);
            std::vector<float> x;
            for (int64_t i = 0; i < rows * columns; ++i)
                x.push_back(static_cast<float>(extreme(i / columns, i % columns, -127, 127, random)));
            const Activations activations(x, columns);
            std::vector<float> expected;
            for (int64_t m = 0; m < rows; ++m) {
                for (int64_t k = 0; k < columns; ++k)
                    ASSERT_EQ(activations.value(m, k), x[static_cast<size_t>(m * columns + k)]);
                for (int64_t n = 0; n < outputs; ++n) {
                    double sum = 0;
                    for (int64_t k = 0; k < columns; ++k) sum += weight.value(n, k) * activations.value(m, k);
                    ASSERT_LT(std::abs(sum), 0x1p24);
                    expected.push_back(static_cast<float>(sum));
                }
            }
            for (const std::vector<float>& y : products(packed, activations.codes))
                EXPECT_EQ(y, expected) << traits(type).name;
            for (int64_t m = 0; m < rows; ++m) {
                const auto from = expected.begin() + m * outputs;
                const std::vector<float> expected_row(from, from + outputs);
                for (const std::vector<float>& y : products(packed, activations.codes.slice_rows(m, 1)))
                    EXPECT_EQ(y, expected_row) << traits(type).name << ", row " << m << " alone";
            }
        }
    });
}

}  // namespace
}  // namespace rondo::test
