#include "kernels/cpu/convert.hpp"

#include <gtest/gtest.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/op_fixture.hpp"

namespace rondo::test {
namespace {

std::vector<uint16_t> all_halves() {
    std::vector<uint16_t> out(1 << 16);
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint16_t>(i);
    return out;
}

/// Every sign and exponent with mantissas around the points where rounding to bf16 turns, and random ones.
std::vector<float> telling_floats() {
    std::mt19937_64 random(81);
    std::vector<float> out;
    for (uint32_t high = 0; high < 512; ++high) {
        for (uint32_t mantissa : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0x17fffU, 0x18000U, 0x18001U, 0x400000U, 0x7f7fffU,
                                  0x7f8000U, 0x7fffffU}) {
            out.push_back(std::bit_cast<float>((high << 23) | mantissa));
        }
        for (int i = 0; i < 8; ++i) {
            out.push_back(std::bit_cast<float>((high << 23) | static_cast<uint32_t>(random() & 0x7fffffU)));
        }
    }
    return out;
}

Matrix as_matrix(const std::vector<float>& values) {
    Matrix out(1, std::ssize(values));
    std::copy(values.begin(), values.end(), out.values.begin());
    return out;
}

TEST(Convert, RoundsToTheNearestBf16AndTiesToEven) {
    const std::vector<float> from = telling_floats();
    const Matrix expected_bf16 = rounded(as_matrix(from), DType::bf16);
    for (size_t i = 0; i < from.size(); ++i) {
        const uint32_t bits = std::bit_cast<uint32_t>(from[i]);
        const float bf16 = cpu::float_from_bf16(cpu::bf16_from_float(from[i]));
        if (std::isnan(from[i])) {
            EXPECT_TRUE(std::isnan(bf16)) << std::hex << bits;
            continue;
        }
        EXPECT_EQ(bf16, expected_bf16.values[i]) << std::hex << bits;
    }
}

TEST(Convert, EveryBf16SurvivesTheWayThroughFloat) {
    for (uint16_t half : all_halves()) {
        if ((half & 0x7fffU) <= 0x7f80U) {
            EXPECT_EQ(cpu::bf16_from_float(cpu::float_from_bf16(half)), half);
        }
    }
}

TEST(Convert, EveryF16IsTheFloatOfItsParts) {
    for (uint16_t half : all_halves()) {
        const int exponent = half >> 10 & 31, mantissa = half & 1023;
        const float made = cpu::float_from_f16(half);
        EXPECT_EQ(std::signbit(made), half >> 15 != 0) << std::hex << half;
        if (exponent == 31 && mantissa != 0) {
            EXPECT_TRUE(std::isnan(made)) << std::hex << half;
            continue;
        }
        const double magnitude = exponent == 31  ? std::numeric_limits<double>::infinity()
                                 : exponent == 0 ? std::ldexp(mantissa, -24)
                                                 : std::ldexp(1024 + mantissa, exponent - 25);
        EXPECT_EQ(std::abs(double{made}), magnitude) << std::hex << half;
    }
}

/// The row converters against the scalar ones, bit for bit, on the machine's own instructions and on AVX2's.
class ConvertRow : public testing::TestWithParam<int64_t> {
protected:
    void SetUp() override { hold_to(GetParam()); }
    void TearDown() override { hold_to(0); }

private:
    static void hold_to(int64_t targets) {
        hwy::SetSupportedTargetsForTest(targets);
        hwy::GetChosenTarget().DeInit();
    }
};
INSTANTIATE_TEST_SUITE_P(EveryTarget, ConvertRow, testing::Values(0, avx2_targets, HWY_SSSE3 | HWY_STATIC_TARGET));

TEST_P(ConvertRow, EqualsTheScalarConversion) {
    const std::vector<float> floats = telling_floats();
    std::vector<uint16_t> bf16(floats.size());
    cpu::convert_row(floats.data(), bf16.data(), std::ssize(floats));
    for (size_t i = 0; i < floats.size(); ++i) EXPECT_EQ(bf16[i], cpu::bf16_from_float(floats[i])) << floats[i];

    const std::vector<uint16_t> halves = all_halves();
    std::vector<float> from_bf16(halves.size());
    cpu::convert_row(halves.data(), from_bf16.data(), std::ssize(halves));
    for (size_t i = 0; i < halves.size(); ++i) {
        EXPECT_EQ(std::bit_cast<uint32_t>(from_bf16[i]), std::bit_cast<uint32_t>(cpu::float_from_bf16(halves[i])));
    }
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512vl,avx512bf16"))) void by_instructions(const float* from, uint16_t* one,
                                                                            uint16_t* two) {
    const __m512 values = _mm512_loadu_ps(from);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(one), (__m256i)_mm512_cvtneps_pbh(values));
    _mm512_storeu_si512(two, (__m512i)_mm512_cvtne2ps_pbh(values, values));
}

/// The instructions that kernels round with agree with the scalar conversion, NaN included. They differ where it is
/// said: denormals become zero.
TEST(Convert, InstructionsKeepEveryNanAsTheScalarOneDoes) {
    if (!cpu::cpu_features().avx512_bf16) GTEST_SKIP() << "this processor has no bf16 instructions";
    std::vector<float> from = telling_floats();
    from.resize(from.size() / 16 * 16);
    int nans = 0;
    for (size_t i = 0; i < from.size(); i += 16) {
        uint16_t one[16], two[32];
        by_instructions(from.data() + i, one, two);
        for (size_t j = 0; j < 16; ++j) {
            const float value = from[i + j];
            nans += std::isnan(value) ? 1 : 0;
            const bool denormal = std::fpclassify(value) == FP_SUBNORMAL;
            const uint16_t wanted = cpu::bf16_from_float(denormal ? std::copysign(0.0F, value) : value);
            EXPECT_EQ(one[j], wanted) << std::hex << std::bit_cast<uint32_t>(value);
            EXPECT_EQ(two[j], wanted) << std::hex << std::bit_cast<uint32_t>(value);
            EXPECT_EQ(two[16 + j], wanted) << std::hex << std::bit_cast<uint32_t>(value);
        }
    }
    EXPECT_GT(nans, 20);
}
#endif

TEST_P(ConvertRow, StopsAtTheEndOfTheRow) {
    for (int64_t count = 0; count < 40; ++count) {
        const std::vector<float> from(static_cast<size_t>(count), 1.5F);
        std::vector<uint16_t> to(static_cast<size_t>(count) + 1, 7);
        cpu::convert_row(from.data(), to.data(), count);
        EXPECT_EQ(to.back(), 7);
        to.pop_back();
        EXPECT_EQ(to, std::vector<uint16_t>(static_cast<size_t>(count), cpu::bf16_from_float(1.5F)));
    }
}

}  // namespace
}  // namespace rondo::test
