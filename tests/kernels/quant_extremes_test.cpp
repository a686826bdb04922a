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

/// A scale or minimum that is infinite, NaN, subnormal or zero gives the reference's result: where that is not finite
/// the product is not finite, and infinite in one way where it is in another. No other output changes a bit.
TEST(QuantExtremes, OddScalesAndMinimaStayInTheirOutput) {
    constexpr int64_t rows = 13;
    for_each_tier([](const std::string&, bool) {
        for (const DType type : quantized_types) {
            const int64_t columns = odd_row_columns(type);
            const QuantRows odd = rows_with_odd_blocks(type, true), plain = rows_with_odd_blocks(type, false);
            const Packed packed_odd(odd, {}), packed_plain(plain, {});
            std::vector<float> x = random_activations(rows * columns, 3);
            std::fill_n(x.begin() + 4 * columns, columns, 0.0F);  // row 4: infinity times zero is not finite either
            const Activations activations(x, columns);
            for (const int64_t some : {int64_t{1}, rows}) {
                const cpu::QuantActivations inputs = activations.codes.slice_rows(0, some);
                const auto ys = products(packed_odd, inputs), untouched = products(packed_plain, inputs);
                ASSERT_EQ(ys.size(), untouched.size());
                for (size_t way = 0; way < ys.size(); ++way) {
                    for (int64_t i = 0; i < some * odd.rows; ++i) {
                        const int64_t m = i / odd.rows, n = i % odd.rows;
                        const float y = ys[way][static_cast<size_t>(i)];
                        const auto trace = [&] {
                            return std::string(traits(type).name) + ", way " + std::to_string(way) + ", row " +
                                   std::to_string(m) + " of " + std::to_string(some) + ", output " + std::to_string(n);
                        };
                        if (!is_odd_row(n)) {
                            ASSERT_EQ(std::memcmp(&y, &untouched[way][static_cast<size_t>(i)], sizeof(y)), 0)
                                << trace();
                            continue;
                        }
                        const float alone = ys[0][static_cast<size_t>(i)];
                        ASSERT_EQ(std::isnan(y), std::isnan(alone)) << trace();
                        ASSERT_TRUE(std::isnan(y) || y == alone) << trace() << ": " << y << ", alone " << alone;
                        double expected = 0, magnitude = 0;
                        for (int64_t k = 0; k < columns; ++k) {
                            expected += odd.value(n, k) * activations.value(m, k);
                            magnitude += odd.magnitude(n, k) * std::abs(activations.value(m, k));
                        }
                        ASSERT_EQ(std::isfinite(y), std::isfinite(expected)) << trace();
                        if (!std::isfinite(expected)) continue;
                        const double rounding = std::ldexp(2.0 * static_cast<double>(columns) / 32 + 4, -24);
                        ASSERT_LE(std::abs(y - expected), rounding * magnitude) << trace();
                    }
                }
            }
        }
    });
}

/// Otherwise the test above would say nothing.
TEST(QuantExtremes, SomeOddRowsAreFiniteAndSomeAreNot) {
    for (const DType type : quantized_types) {
        const QuantRows odd = rows_with_odd_blocks(type, true);
        int finite = 0, not_finite = 0;
        for (int64_t n = 0; n < odd.rows; ++n) {
            bool all = true;
            for (int64_t k = 0; k < odd.columns; ++k) all = all && std::isfinite(odd.value(n, k));
            EXPECT_TRUE(all || is_odd_row(n)) << traits(type).name << " row " << n;
            if (is_odd_row(n)) ++(all ? finite : not_finite);
        }
        EXPECT_EQ(not_finite, has_minima(type) ? 9 : 4) << traits(type).name;
        EXPECT_EQ(finite + not_finite, std::ssize(odd_scales));
    }
}

}  // namespace
}  // namespace rondo::test
