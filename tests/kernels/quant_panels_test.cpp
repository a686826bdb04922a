#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>

#include "kernels/cpu/cpu_features.hpp"
#include "kernels/cpu/packed_quant.hpp"
#include "kernels/cpu/quant_kernels.hpp"
#include "kernels/cpu/quant_layout.hpp"
#include "kernels/cpu/quant_ways.hpp"
#include "kernels/quant.hpp"
#include "tests/kernels/quant_products.hpp"
#include "tests/kernels/quant_rows.hpp"

namespace rondo::cpu {
namespace {

using test::Activations;
using test::AlignedBytes;
using test::for_each_tier;
using test::multiply_in;
using test::Packed;
using test::product;

std::vector<int64_t> column_counts(DType type) {
    if (traits(type).block_elements == 256) return {256, 768};
    return {32, 64, 96, 256, 288, 896};
}

/// for_each_tier passes over what this processor has not, so that is told here.
TEST(QuantTiers, AreAllOnThisProcessor) {
    std::string missing = cpu::cpu_features().avx512_vnni ? "" : " VNNI";
    for (int64_t targets = HWY_TARGETS & ~hwy::SupportedTargets(); targets != 0; targets &= targets - 1)
        missing += std::string(" Highway's ") + hwy::TargetName(targets & -targets);
    if (!missing.empty()) GTEST_SKIP() << "this processor lacks" << missing;
}

TEST(QuantPanels, ProductMatchesTheDoubleReference) {
    for_each_tier([](const std::string&, bool) {
        for (const DType type : test::quantized_types) {
            for (const int64_t columns : column_counts(type)) {
                for (const int64_t rows : {1, 16, 37, 64}) {
                    SCOPED_TRACE(std::string(traits(type).name) + " " + std::to_string(rows) + "x" +
                                 std::to_string(columns));
                    const test::QuantRows weight = test::random_rows(type, rows, columns, 11);
                    const Packed packed(weight, {});
                    const std::vector<float> x = test::random_activations(3 * columns, 5);
                    const Activations activations(x, columns);
                    const std::vector<float> y = product(packed, activations.codes);
                    for (int64_t m = 0; m < 3; ++m) {
                        for (int64_t n = 0; n < rows; ++n) {
                            double exact = 0, quantized = 0, magnitude = 0, activation_error = 0;
                            for (int64_t k = 0; k < columns; ++k) {
                                const double a = activations.value(m, k);
                                exact += weight.value(n, k) * x[static_cast<size_t>(m * columns + k)];
                                quantized += weight.value(n, k) * a;
                                magnitude += weight.magnitude(n, k) * std::abs(a);
                                activation_error += std::abs(weight.value(n, k)) * activations.scale(m, k) / 2;
                            }
                            const double actual = y[static_cast<size_t>(m * rows + n)];
                            // Two float terms a block at most, each rounded thrice and summed in order.
                            const double rounding =
                                std::ldexp(2.0 * static_cast<double>(columns) / 32 + 4, -24) * magnitude;
                            ASSERT_LE(std::abs(actual - quantized), rounding) << m << ", " << n;
                            ASSERT_LE(std::abs(actual - exact), activation_error * (1 + 1e-5) + rounding);
                        }
                    }
                }
            }
        }
    });
}

TEST(QuantPanels, TiersWithFusedMultiplyAddGiveTheSameBitsOthersNearlyThem) {
    for (const DType type : test::quantized_types) {
        const test::QuantRows weight = test::random_rows(type, 50, 768, 21);
        const Packed packed(weight, {});
        const Activations activations(test::random_activations(5 * 768, 9), 768);
        std::vector<float> fused;
        std::vector<std::pair<bool, std::vector<float>>> results;
        for_each_tier([&](const std::string&, bool is_fused) {
            results.emplace_back(is_fused, product(packed, activations.codes));
            if (is_fused) fused = results.back().second;
        });
        for (const auto& [is_fused, y] : results) {
            if (fused.empty()) break;
            if (is_fused) {
                EXPECT_EQ(std::memcmp(y.data(), fused.data(), y.size() * 4), 0) << traits(type).name;
                continue;
            }
            const float largest = std::abs(*std::max_element(
                fused.begin(), fused.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
            for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], fused[i], largest * 4e-6F) << traits(type).name;
        }
    }
}

TEST(QuantPanels, BitsOfARowDoNotDependOnTheOtherRows) {
    for_each_tier([](const std::string&, bool) {
        for (const DType type : test::quantized_types) {
            const int64_t columns = 512;
            const test::QuantRows weight = test::random_rows(type, 24, columns, 2);
            const Packed packed(weight, {});
            const std::vector<float> x = test::random_activations(35 * columns, 1);
            std::vector<std::vector<float>> alone;
            for (int64_t m = 0; m < 35; ++m) {
                const std::vector<float> row(x.begin() + m * columns, x.begin() + (m + 1) * columns);
                alone.push_back(product(packed, Activations(row, columns).codes));
            }
            for (const int64_t rows : {2, 3, 7, 8, 15, 32, 35}) {
                const std::vector<float> some(x.begin(), x.begin() + rows * columns);
                const std::vector<float> y = product(packed, Activations(some, columns).codes);
                for (int64_t m = 0; m < rows; ++m) {
                    ASSERT_EQ(std::memcmp(y.data() + m * 24, alone[static_cast<size_t>(m)].data(), 24 * 4), 0)
                        << traits(type).name << ", row " << m << " of " << rows;
                }
            }
        }
    });
}

TEST(QuantPanels, EveryWayGivesTheSameBits) {
    if (!cpu_features().avx512_vnni) GTEST_SKIP() << "this processor multiplies one group at a time";
    for (const DType type : test::quantized_types) {
        const int64_t block = traits(type).block_elements;
        // The last chunk may have fewer blocks, and a row more than are widened at a time.
        for (const int64_t columns : {block, 3 * block, (block == 32 ? 37 : 9) * block}) {
            for (const int64_t outputs : {16, 32, 53, 96}) {
                const Packed packed(test::random_rows(type, outputs, columns, 3), {});
                const std::vector<float> bias = test::random_activations(outputs, 8);
                for (const int64_t rows : {1, 3, 4, 6, 7, 8, 11, 13, 24, 64, 65}) {
                    const AlignedBytes wide(static_cast<size_t>(wide_bytes(type, columns, rows)));
                    SCOPED_TRACE(std::string(traits(type).name) + " " + std::to_string(columns) + " columns, " +
                                 std::to_string(outputs) + " outputs, " + std::to_string(rows) + " rows");
                    const std::vector<float> x = test::random_activations(rows * columns, 5);
                    const Activations activations(x, columns);
                    std::vector<float> first;
                    for (const QuantWay way : {QuantWay::alone, QuantWay::in_pairs, QuantWay::widened}) {
                        std::vector<float> y(static_cast<size_t>(rows * outputs), 0.5F);
                        multiply_in(way,
                                    {type, outputs, columns, packed.storage.data, 0, packed.panels.groups(), y.data(),
                                     outputs, bias.data(), true, way, wide.data},
                                    activations.codes);
                        if (way == QuantWay::alone) first = y;
                        EXPECT_EQ(std::memcmp(first.data(), y.data(), y.size() * sizeof(float)), 0)
                            << "way " << static_cast<int>(way);
                        // From the second group on: outputs before it stay as they are.
                        std::vector<float> rest(y.size(), 0.5F);
                        multiply_in(way,
                                    {type, outputs, columns, packed.storage.data, 1, packed.panels.groups(),
                                     rest.data(), outputs, bias.data(), true, way, wide.data},
                                    activations.codes);
                        for (size_t i = 0; i < y.size(); ++i) {
                            const bool before = static_cast<int64_t>(i) % outputs < quant_group_rows;
                            ASSERT_EQ(rest[i], before ? 0.5F : y[i]) << "way " << static_cast<int>(way);
                        }
                    }
                }
            }
        }
    }
}

TEST(QuantPanels, TheWayIsMeasuredOnce) {
    for (const DType type : test::quantized_types) {
        EXPECT_EQ(quant_way(type, 7), QuantWay::alone) << "few rows wait for memory";
        for (const int64_t rows : {8, 24, 48}) {
            const QuantWay found = quant_way(type, rows);
            EXPECT_TRUE(found == QuantWay::alone || cpu_features().avx512_vnni);
            for (int i = 0; i < 20; ++i) ASSERT_EQ(quant_way(type, rows), found);
        }
    }
}

TEST(QuantPanels, AddsBiasAndAccumulatesInsideItsGroupsOnly) {
    for_each_tier([](const std::string&, bool) {
        const int64_t rows = 45, columns = 64, stride = 50;
        const Packed packed(test::random_rows(DType::q5_1, rows, columns, 4), {});
        const Activations activations(test::random_activations(2 * columns, 6), columns);
        const std::vector<float> plain = product(packed, activations.codes);
        std::vector<float> bias(rows);
        std::iota(bias.begin(), bias.end(), 1.0F);
        std::vector<float> y(2 * stride, -7.0F);
        packed.panels.multiply(packed.storage.data, activations.codes, 1, 3, y.data(), stride, bias.data(), true);
        for (int64_t m = 0; m < 2; ++m) {
            for (int64_t n = 0; n < stride; ++n) {
                const float expected = n < 16 || n >= rows ? -7.0F : plain[m * rows + n] + bias[n] + -7.0F;
                ASSERT_EQ(y[m * stride + n], expected) << m << ", " << n;
            }
        }
    });
}

TEST(QuantPanels, RowOrderPermutesOutputs) {
    const test::QuantRows weight = test::random_rows(DType::q4_k, 33, 256, 8);
    std::vector<int32_t> order(33);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(5));
    const Packed packed(weight, order);
    std::vector<float> row(256), expected(256);
    for (int64_t i = 0; i < 33; ++i) {
        packed.panels.unpack_row(packed.storage.data, i, row.data());
        dequantize_row(weight.type, weight.row(order[static_cast<size_t>(i)]), expected.data(), 256);
        ASSERT_EQ(row, expected) << i;
    }
}

/// Where tiles have input k of the panel's row n, of a chunk with so many blocks of 32 inputs.
size_t place_in_tiles(int64_t n, int64_t k, int64_t blocks) {
    const int64_t half = n / 32, tile = n / 16 % 2, pair = k % 32 / 2;
    return static_cast<size_t>((((half * blocks + k / 32) * 2 + tile) * 16 + pair) * 32 + n % 16 * 2 + k % 2);
}

void unpack_tiles(const Packed& packed, int64_t panel, int64_t input, uint16_t* tiles) {
    for (int64_t tile = 0; tile < packed.panels.tile_count(input); ++tile)
        packed.panels.unpack_tile(packed.storage.data, panel, input, tile, tiles);
}

TEST(QuantPanels, UnpackedRowsAreTheReferenceBits) {
    for_each_tier([](const std::string&, bool) {
        for (const DType type : test::quantized_types) {
            for (const int64_t columns : column_counts(type)) {
                SCOPED_TRACE(std::string(traits(type).name) + " columns " + std::to_string(columns));
                const test::QuantRows weight = test::random_rows(type, 85, columns, 13);
                const Packed packed(weight, {});
                std::vector<float> row(static_cast<size_t>(columns)), expected(static_cast<size_t>(columns));
                for (int64_t n = 0; n < 85; ++n) {
                    dequantize_row(type, weight.row(n), expected.data(), columns);
                    packed.panels.unpack_row(packed.storage.data, n, row.data());
                    ASSERT_EQ(std::memcmp(row.data(), expected.data(), row.size() * 4), 0) << n;
                }
            }
        }
    });
}

class QuantTiles : public testing::Test {
protected:
    void SetUp() override {
        if (!cpu_features().avx512_bf16) GTEST_SKIP() << "this processor has no bf16 products";
    }
};

TEST_F(QuantTiles, AreTheReferenceBitsRounded) {
    for (const DType type : test::quantized_types) {
        for (const int64_t columns : column_counts(type)) {
            SCOPED_TRACE(std::string(traits(type).name) + " columns " + std::to_string(columns));
            const test::QuantRows weight = test::random_rows(type, 85, columns, 13);
            const Packed packed(weight, {});
            alignas(64) uint16_t tiles[64 * 256];
            std::vector<float> expected(static_cast<size_t>(columns));
            for (int64_t panel = 0; panel < 2; ++panel) {
                for (int64_t begin = 0; begin < columns; begin += 256) {
                    const int64_t blocks = std::min<int64_t>(256, columns - begin) / 32;
                    std::fill(std::begin(tiles), std::end(tiles), uint16_t{0xffff});
                    unpack_tiles(packed, panel, begin, tiles);
                    for (int64_t n = 0; n < 64; ++n) {
                        std::fill(expected.begin(), expected.end(), 0.0F);
                        if (64 * panel + n < 85)
                            dequantize_row(type, weight.row(64 * panel + n), expected.data(), columns);
                        for (int64_t k = 0; k < 32 * blocks; ++k) {
                            const uint16_t bits = tiles[place_in_tiles(n, k, blocks)];
                            const float value = expected[static_cast<size_t>(begin + k)];
                            const auto exact = std::bit_cast<uint32_t>(value);
                            const uint32_t rounded = (exact + 0x7FFF + (exact >> 16 & 1)) >> 16;
                            const uint32_t mask = value == 0 ? 0x7FFF : 0xFFFF;
                            ASSERT_EQ(bits & mask, rounded & mask) << "row " << n << ", input " << begin + k;
                        }
                    }
                }
            }
        }
    }
}

/// Rounding the largest payload of a NaN upwards would give zero.
TEST_F(QuantTiles, KeepEveryNan) {
    for (const DType type : test::quantized_types) {
        const int64_t columns = traits(type).block_elements;
        const std::vector<uint16_t> nans = {0x7C01, 0x7DFF, 0x7E00, 0x7FFF, 0xFC01, 0xFFFF};
        test::QuantRows weight;
        weight.type = type;
        weight.rows = std::ssize(nans);
        weight.columns = columns;
        std::mt19937 random(19);
        for (const uint16_t nan : nans) {
            test::BlockParts parts = test::random_parts(type, random);
            parts.d = nan;
            test::add_block(weight, parts);
        }
        const Packed packed(weight, {});
        alignas(64) uint16_t tiles[64 * 256];
        unpack_tiles(packed, 0, 0, tiles);
        for (int64_t n = 0; n < weight.rows; ++n) {
            for (int64_t k = 0; k < columns; ++k) {
                ASSERT_GT(tiles[place_in_tiles(n, k, columns / 32)] & 0x7FFF, 0x7F80)
                    << traits(type).name << " " << std::hex << nans[size_t(n)];
            }
        }
    }
}

TEST(QuantPanels, TakesHardlyMoreBytesThanTheFile) {
    for (const DType type : test::quantized_types) {
        const QuantPanels panels = *QuantPanels::pack_shape(type, 4864, 1536);
        const double file = static_cast<double>(bytes_of(type, 4864 * 1536));
        const double ratio = static_cast<double>(panels.bytes()) / file;
        EXPECT_LE(ratio, type == DType::q4_k || type == DType::q5_k || type == DType::iq4_xs ? 1.03
                         : type == DType::q6_k                                               ? 1.01
                         : type == DType::q3_k                                               ? 1.06
                                                                                             : 1.0)
            << traits(type).name;
        EXPECT_GE(ratio, 1.0);
    }
}

TEST(QuantPanels, RefusesShapesItCannotHold) {
    EXPECT_EQ(QuantPanels::pack_shape(DType::bf16, 16, 32).error().code, ErrorCode::unsupported);
    EXPECT_EQ(QuantPanels::pack_shape(DType::q4_0, 16, 33).error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(QuantPanels::pack_shape(DType::q4_k, 16, 128).error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(QuantPanels::pack_shape(DType::q4_0, 0, 32).error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(QuantPanels::pack_shape(DType::q4_0, -1, 32).error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(QuantPanels::pack_shape(DType::q8_0, INT64_MAX, 256).error().code, ErrorCode::out_of_range);
    EXPECT_EQ(QuantPanels::pack_shape(DType::q8_0, 16, INT64_MAX - 31).error().code, ErrorCode::out_of_range);
}

}  // namespace
}  // namespace rondo::cpu
