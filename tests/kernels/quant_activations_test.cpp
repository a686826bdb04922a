#include "kernels/cpu/quant_activations.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/kernels/quant_rows.hpp"

namespace rondo::cpu {
namespace {

struct Scratch {
    explicit Scratch(size_t size) : bytes(size + 64) {}
    std::span<std::byte> span() {
        void* at = bytes.data();
        size_t space = bytes.size();
        std::align(64, bytes.size() - 64, at, space);
        return {static_cast<std::byte*>(at), bytes.size() - 64};
    }
    std::vector<std::byte> bytes;
};

TEST(QuantActivations, CodesAreWithinHalfAScaleAndSumsAreTheirs) {
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::GetChosenTarget().Update(target);
        SCOPED_TRACE(hwy::TargetName(target));
        const int64_t rows = 3, columns = 160;
        std::vector<float> x = test::random_activations(rows * columns, 31);
        std::fill(x.begin() + 32, x.begin() + 64, 0.0F);
        std::fill(x.begin() + 64, x.begin() + 96, 1e-37F);  // too small to have a scale with a finite reciprocal
        Scratch scratch(activation_bytes(rows, columns));
        const QuantActivations out =
            quantize_activations(Tensor::of(x.data(), DType::f32, rows, columns), scratch.span());
        for (int64_t block = 0; block < rows * columns / 32; ++block) {
            const int8_t* codes = out.codes + block * 32;
            float largest = 0.0F;
            for (int i = 0; i < 32; ++i) largest = std::max(largest, std::abs(x[static_cast<size_t>(block * 32 + i)]));
            EXPECT_EQ(out.scales[block], largest < 1e-30F ? 0.0F : largest / 127.0F);
            for (int i = 0; i < 32; ++i) {
                const double error = x[static_cast<size_t>(block * 32 + i)] - double{out.scales[block]} * codes[i];
                EXPECT_LE(std::abs(error), out.scales[block] * 0.50001 + 1e-30) << block << " " << i;
            }
            const int first = std::accumulate(codes, codes + 16, 0);
            const int second = std::accumulate(codes + 16, codes + 32, 0);
            EXPECT_EQ(out.half_sums[2 * block], first);
            EXPECT_EQ(out.half_sums[2 * block + 1], second);
            EXPECT_EQ(out.sums[block], first + second);
            EXPECT_EQ(out.scaled_half_sums[2 * block], out.scales[block] * static_cast<float>(first));
            EXPECT_EQ(out.scaled_half_sums[2 * block + 1], out.scales[block] * static_cast<float>(second));
            EXPECT_EQ(out.scaled_sums[block], out.scales[block] * static_cast<float>(first + second));
            EXPECT_EQ(std::bit_cast<float>(out.begins[block] + wide_offset * (first + second)), lift);
            EXPECT_EQ(std::bit_cast<float>(out.half_begins[2 * block] + wide_offset * first), lift);
            EXPECT_EQ(out.half_begins[2 * block + 1] + wide_offset * second, 0);
        }
    }
    hwy::GetChosenTarget().DeInit();
}

TEST(QuantActivations, EveryTargetGivesTheSameBitsFromFloatsAndBf16) {
    const int64_t rows = 4, columns = 96, stride = 100;
    std::vector<float> x = test::random_activations(rows * stride, 77);
    std::vector<uint16_t> bf16(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
        uint32_t bits;
        std::memcpy(&bits, &x[i], 4);
        bf16[i] = static_cast<uint16_t>(bits >> 16);
        bits &= 0xFFFF0000U;
        std::memcpy(&x[i], &bits, 4);
    }
    std::vector<std::byte> first;
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::GetChosenTarget().Update(target);
        for (const bool narrow : {false, true}) {
            Tensor tensor = narrow ? Tensor::of(bf16.data(), DType::bf16, rows, columns)
                                   : Tensor::of(x.data(), DType::f32, rows, columns);
            tensor.stride = stride;
            Scratch scratch(activation_bytes(rows, columns));
            quantize_activations(tensor, scratch.span());
            std::vector<std::byte> result(scratch.span().begin(), scratch.span().end());
            if (first.empty()) first = result;
            EXPECT_EQ(result, first) << hwy::TargetName(target) << (narrow ? " bf16" : " f32");
        }
    }
    hwy::GetChosenTarget().DeInit();
}

TEST(QuantActivations, RowsSideBySideAreTheSameRows) {
    const int64_t rows = 2 * strip_rows + 5, blocks = 67, columns = blocks * 32;  // more than are quantized at a time
    const std::vector<float> x = test::random_activations(rows * columns, 9);
    const Tensor tensor = Tensor::of(const_cast<float*>(x.data()), DType::f32, rows, columns);
    Scratch behind(activation_bytes(rows, columns)), beside(activation_bytes(rows, columns, strip_rows));
    Scratch copied(activation_bytes(rows, columns));
    const QuantActivations one = quantize_activations(tensor, behind.span());
    const QuantActivations strips = quantize_activations(tensor, beside.span(), strip_rows);
    EXPECT_EQ(strips.at(strip_rows + 3, 2), (blocks + 2) * strip_rows + 3);
    copy_rows(strips, 0, rows, copied.span());
    EXPECT_TRUE(std::ranges::equal(behind.span(), copied.span()));
    const QuantActivations last = strips.slice_rows(strip_rows, strip_rows + 5);
    for (int64_t row = 0; row < last.rows; ++row) {
        const int64_t here = last.at(row, blocks - 1), there = one.at(strip_rows + row, blocks - 1);
        EXPECT_EQ(last.scales[here], one.scales[there]);
        EXPECT_EQ(last.half_begins[2 * here + 1], one.half_begins[2 * there + 1]);
        EXPECT_EQ(std::memcmp(last.codes + here * 32, one.codes + there * 32, 32), 0) << row;
    }
}

TEST(QuantActivations, ValuesThatAreNotFiniteShowInTheScale) {
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::GetChosenTarget().Update(target);
        std::vector<float> x(64, 1.0F);
        x[3] = std::numeric_limits<float>::quiet_NaN();
        x[40] = -std::numeric_limits<float>::infinity();
        Scratch scratch(activation_bytes(1, 64));
        const QuantActivations out = quantize_activations(Tensor::of(x.data(), DType::f32, 1, 64), scratch.span());
        EXPECT_TRUE(std::isnan(out.scales[0]));
        EXPECT_TRUE(std::isinf(out.scales[1]));
    }
    hwy::GetChosenTarget().DeInit();
}

}  // namespace
}  // namespace rondo::cpu
