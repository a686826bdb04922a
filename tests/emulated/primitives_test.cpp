#include "tests/emulated/primitives.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

/// The same expectations for the emulator and for a GPU, worked out here without either: where both pass, the emulator
/// reads CUDA as the hardware does.
namespace rondo::primitives {
namespace {

class Primitives : public ::testing::Test {
protected:
    void SetUp() override {
        int count = 0;
        if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no GPU here";
        ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    }
    void TearDown() override {
        if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
    }

    static void need(cudaError_t error) { ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

    /// What `launch(out, in)` makes of the values: `outputs` of them.
    template <class T, class Launch>
    std::vector<T> run(const std::vector<T>& in, size_t outputs, Launch launch) {
        std::vector<T> out(outputs);
        void* from = nullptr;
        void* to = nullptr;
        need(cudaMalloc(&from, std::max<size_t>(1, in.size()) * sizeof(T)));
        need(cudaMalloc(&to, outputs * sizeof(T)));
        need(cudaMemcpyAsync(from, in.data(), in.size() * sizeof(T), cudaMemcpyDefault, stream_));
        need(launch(static_cast<T*>(to), static_cast<const T*>(from)));
        need(cudaMemcpyAsync(out.data(), to, outputs * sizeof(T), cudaMemcpyDefault, stream_));
        need(cudaStreamSynchronize(stream_));
        need(cudaFree(from));
        need(cudaFree(to));
        return out;
    }

    std::vector<uint32_t> applied(Function function, const std::vector<uint32_t>& in) {
        return run(in, in.size(), [&](uint32_t* out, const uint32_t* from) {
            return apply(stream_, function, out, from, static_cast<int>(in.size()));
        });
    }

    /// The function's values for these floats must have the bits of `expected(x)`.
    template <class Expected>
    void expect_bits(Function function, const std::vector<float>& in, Expected expected) {
        std::vector<uint32_t> bits;
        for (const float x : in) bits.push_back(std::bit_cast<uint32_t>(x));
        const std::vector<uint32_t> out = applied(function, bits);
        for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(out[i], expected(in[i])) << in[i] << ", bits " << bits[i];
    }

    cudaStream_t stream_ = nullptr;
};

std::vector<uint32_t> numbers(size_t count) {
    std::vector<uint32_t> values(count);
    std::iota(values.begin(), values.end(), 100);
    return values;
}

/// Of every exponent some, with ties and their neighbours; no NaN.
std::vector<float> many_floats() {
    std::vector<float> out = {0.0F, -0.0F, INFINITY, -INFINITY, 65504.0F, 65519.996F, 65520.0F};
    for (uint32_t exponent = 0; exponent < 255; ++exponent) {
        for (const uint32_t fraction : {0x0U, 0x1U, 0x7fffU, 0x8000U, 0x8001U, 0x18000U, 0xfffU, 0x1000U, 0x1001U,
                                        0x3000U, 0x123456U, 0x7fffffU}) {
            out.push_back(std::bit_cast<float>(exponent << 23 | fraction));
            out.push_back(-out.back());
        }
    }
    return out;
}

uint32_t bits_of(float value) {
    return std::bit_cast<uint32_t>(value);
}

TEST_F(Primitives, ShufflesGiveTheLaneThatIsAskedFor) {
    const std::vector<uint32_t> in = numbers(lanes);
    for (const bool half : {false, true}) {
        for (int argument = 0; argument < (half ? 16 : 32); ++argument) {
            for (const Shuffle kind : {Shuffle::from_lane, Shuffle::exchange, Shuffle::down}) {
                // Beyond a mask's half lies no lane that may be asked.
                if (half && kind == Shuffle::down && argument > 0) continue;
                const auto out = run(in, lanes, [&](uint32_t* to, const uint32_t* from) {
                    return shuffle(stream_, kind, half, argument, to, from);
                });
                for (int lane = 0; lane < lanes; ++lane) {
                    int from = lane ^ argument;
                    if (kind == Shuffle::from_lane) from = half ? lane / 16 * 16 + argument : argument;
                    if (kind == Shuffle::down) from = lane + argument < lanes ? lane + argument : lane;
                    EXPECT_EQ(out[static_cast<size_t>(lane)], in[static_cast<size_t>(from)])
                        << "kind " << static_cast<int>(kind) << ", argument " << argument << ", lane " << lane;
                }
            }
        }
    }
}

TEST_F(Primitives, ShufflesTakeSixtyFourBits) {
    std::vector<double> in(lanes);
    for (size_t i = 0; i < in.size(); ++i) in[i] = 1.0 / (static_cast<double>(i) + 3.0);
    const auto out =
        run(in, lanes, [&](double* to, const double* from) { return exchange_doubles(stream_, 8, to, from); });
    for (size_t i = 0; i < in.size(); ++i) EXPECT_EQ(out[i], in[i ^ 8]);
}

TEST_F(Primitives, BarriersLetSharedMemoryBeReadByOthers) {
    const std::vector<uint32_t> in = numbers(lanes);
    auto expected = in;
    std::reverse(expected.begin(), expected.end());
    EXPECT_EQ(run(in, lanes, [&](auto* to, auto* from) { return reverse_warp(stream_, to, from); }), expected);

    const std::vector<uint32_t> many = numbers(5 * 96);
    for (const int turns : {1, 2, 7}) {
        expected = many;
        for (size_t b = 0; b < 5 && turns % 2 == 1; ++b) {
            std::reverse(expected.begin() + static_cast<long>(b) * 96,
                         expected.begin() + static_cast<long>(b + 1) * 96);
        }
        EXPECT_EQ(run(many, many.size(),
                      [&](auto* to, auto* from) { return reverse_blocks(stream_, 5, 96, turns, to, from); }),
                  expected);
    }
}

TEST_F(Primitives, ThreadsAreNumberedXFirst) {
    const auto out = run(std::vector<uint32_t>{}, grid_threads,
                         [&](uint32_t* to, const uint32_t*) { return number_threads(stream_, to); });
    for (uint32_t i = 0; i < grid_threads; ++i) EXPECT_EQ(out[i], i / 24 * 1000 + i % 24) << i;
}

TEST_F(Primitives, LaunchesOutsideTheLimitsAreRefused) {
    EXPECT_EQ(reverse_blocks(stream_, 0, 32, 1, nullptr, nullptr), cudaErrorInvalidConfiguration);
    EXPECT_EQ(reverse_blocks(stream_, 1, 1025, 1, nullptr, nullptr), cudaErrorInvalidConfiguration);
    (void)cudaGetLastError();
}

/// Half a unit of the last place is a tie, which goes to even.
TEST_F(Primitives, Bf16IsRoundedToNearestEven) {
    expect_bits(Function::to_bf16, many_floats(), [](float x) {
        const uint32_t bits = bits_of(x);
        return std::isinf(x) ? bits >> 16 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    });
}

TEST_F(Primitives, F16IsRoundedToNearestEven) {
    expect_bits(Function::to_f16, many_floats(),
                [](float x) { return uint32_t{std::bit_cast<uint16_t>(static_cast<_Float16>(x))}; });
}

TEST_F(Primitives, EveryHalfBecomesTheFloatItStandsFor) {
    std::vector<uint32_t> all(65536);
    std::iota(all.begin(), all.end(), 0);
    const std::vector<uint32_t> of_bf16 = applied(Function::from_bf16, all);
    const std::vector<uint32_t> of_f16 = applied(Function::from_f16, all);
    size_t wrong = 0;
    for (const uint32_t bits : all) {
        const auto half = static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
        if (!std::isnan(half) && of_f16[bits] != bits_of(half)) ++wrong;
        if (std::isnan(half) && !std::isnan(std::bit_cast<float>(of_f16[bits]))) ++wrong;
        if (of_bf16[bits] != bits << 16 && !std::isnan(std::bit_cast<float>(bits << 16))) ++wrong;
    }
    EXPECT_EQ(wrong, 0U);
}

TEST_F(Primitives, ArithmeticIsRoundedAsIeeeSays) {
    expect_bits(Function::round, many_floats(), [](float x) { return bits_of(std::nearbyint(x)); });
    expect_bits(Function::to_bits, many_floats(), bits_of);
    expect_bits(Function::inverse, many_floats(), [](float x) { return bits_of(1.0F / x); });
    std::vector<float> positive = many_floats();
    for (float& x : positive) x = std::fabs(x);
    expect_bits(Function::square_root, positive, [](float x) { return bits_of(std::sqrt(x)); });
}

TEST_F(Primitives, FusedProductsKeepWhatRoundingLoses) {
    for (const float x : {1.1F, 3.3333F, 1e10F, 7.7e-5F}) {
        const float rounded = x * x;
        const auto lost = static_cast<float>(static_cast<double>(x) * x - static_cast<double>(rounded));
        expect_bits(Function::fused, {x}, [&](float) { return bits_of(lost); });
    }
}

/// NVIDIA states 2 units of the last place for expf, 2 for sincos.
TEST_F(Primitives, ExponentialAndAnglesAreWithinTheirStatedError) {
    std::vector<uint32_t> in;
    for (float x = -100.0F; x < 88.0F; x += 0.173F) in.push_back(bits_of(x));
    const std::vector<uint32_t> out = applied(Function::exponential, in);
    for (size_t i = 0; i < in.size(); ++i) {
        const double exact = std::exp(static_cast<double>(std::bit_cast<float>(in[i])));
        const double unit = std::max(exact * 0x1p-23, 0x1p-149);
        EXPECT_LE(std::fabs(std::bit_cast<float>(out[i]) - exact), 2 * unit) << std::bit_cast<float>(in[i]);
    }
    std::vector<double> angles;
    for (double x = -3.0; x < 200000.0; x = x * 1.01 + 0.37) angles.push_back(x);
    const auto count = static_cast<int>(angles.size());
    const std::vector<double> both = run(angles, 2 * angles.size(), [&](double* to, const double* from) {
        return sine_and_cosine(stream_, to, from, count);
    });
    for (size_t i = 0; i < angles.size(); ++i) {
        EXPECT_NEAR(both[i], std::sin(angles[i]), 4e-16);
        EXPECT_NEAR(both[angles.size() + i], std::cos(angles[i]), 4e-16);
    }
}

}  // namespace
}  // namespace rondo::primitives
