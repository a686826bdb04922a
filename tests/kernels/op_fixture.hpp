#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/cpu/bf16_way.hpp"
#include "kernels/cpu/cpu_features.hpp"
#include "kernels/ops.hpp"
#include "tests/kernels/reference.hpp"

namespace rondo::test {

/// Where an op's test body runs. A CPU can be held to an older machine's instructions, so that one machine tests the
/// code paths of all.
struct Place {
    const char* name;
    const char* device;
    cpu::CpuFeatures features = {true, true, true, true};
    int64_t highway_targets = 0;       ///< 0: what the machine has
    Bf16Way bf16 = Bf16Way::measured;  ///< where the features have it
    bool needs_avx512 = false;         ///< skipped without, where another place tests the same code
};

inline constexpr int64_t avx2_targets = HWY_AVX2 | HWY_SSE4 | HWY_SSSE3 | HWY_STATIC_TARGET;

inline constexpr Place places[] = {
    {"Cpu1", "cpu:1"},
    {"Cpu2", "cpu:2"},
    {"CpuAvx512", "cpu:1", {true, true, true, false}, 0, Bf16Way::pairs},
    {"CpuFloats", "cpu:2", {true, true, true, true}, 0, Bf16Way::floats, true},
    {"CpuTiles", "cpu:2", {true, true, true, true}, 0, Bf16Way::tiles},
    {"CpuAvx512Base", "cpu:2", {true, false, false, false}, 0, Bf16Way::measured, true},
    {"CpuAvx2", "cpu:1", {}, avx2_targets},
    {"Cuda0", "cuda:0"},
};

inline void PrintTo(const Place& place, std::ostream* out) {
    *out << place.name;
}

/// Opens the device and moves matrices to and from it. Bytes between and around a tensor's rows are poison (0xff: NaN
/// in every float type), and must still be when the test ends. Outputs start as poison too, so an element that was not
/// written shows as NaN.
class OpTest : public testing::TestWithParam<Place> {
protected:
    void SetUp() override {
        hold_to(GetParam().features, GetParam().highway_targets);
        const Result<DeviceOptions> options = parse_device(GetParam().device);
        ASSERT_TRUE(options.is_ok()) << options.error().message;
        DeviceOptions how = *options;
        how.bf16 = GetParam().bf16;
        const auto ways = cpu::bf16_ways_here();
        const bool is_there = how.bf16 == Bf16Way::measured || std::ranges::count(ways, how.bf16) != 0;
        if (!is_there) GTEST_SKIP() << "this processor has no such bf16 products";
        if (GetParam().needs_avx512 && !cpu::cpu_features().avx512) GTEST_SKIP() << "this processor has no AVX-512";
        Result<std::unique_ptr<Device>> opened = open_device(how);
        if (!opened.is_ok() && options->kind == DeviceKind::cuda && cuda_device_count() == 0) {
            GTEST_SKIP() << "no GPU here: " << opened.error().message;
        }
        ASSERT_TRUE(opened.is_ok()) << opened.error().message;
        device_ = std::move(*opened);
    }

    void TearDown() override {
        for (const Allocation& allocation : tensors_) expect_poison_around(allocation);
        tensors_.clear();
        buffers_.clear();
        device_.reset();
        hold_to({true, true, true, true}, 0);
    }

    Device& device() { return *device_; }
    Ops& ops() { return device_->ops(); }

    static void expect_ok(const Status& status) { ASSERT_TRUE(status.is_ok()) << status.error().message; }

    /// A tensor of poison, rows `gap` elements apart.
    Tensor poisoned(DType dtype, int64_t rows, int64_t columns, int64_t gap = 3) {
        const int64_t stride = columns + gap;
        const std::vector<std::byte> poison(2 * guard_bytes + bytes_of(dtype, rows * stride), poison_byte);
        std::byte* base = place(poison.data(), poison.size());
        const Tensor tensor{base + guard_bytes, dtype, rows, columns, stride};
        tensors_.push_back({base, poison.size(), tensor});
        return tensor;
    }

    Tensor upload(const Matrix& values, DType dtype, int64_t gap = 3) {
        const Tensor tensor = poisoned(dtype, values.rows, values.columns, gap);
        write(tensor, values);
        return tensor;
    }

    /// Overwrites a tensor, or a slice of one.
    void write(const Tensor& tensor, const Matrix& values) {
        const std::vector<std::byte> bytes = encode(values, tensor.dtype);
        const size_t row_bytes = bytes_of(tensor.dtype, values.columns);
        for (int64_t r = 0; r < values.rows; ++r) {
            copy(tensor.row<std::byte>(r), bytes.data() + static_cast<size_t>(r) * row_bytes, row_bytes);
        }
    }

    /// Plain values: ids, positions, a norm's weight. Poison follows, in case something reads past the end.
    template <class T>
    const T* upload(std::span<const T> values) {
        std::vector<std::byte> bytes(values.size_bytes() + guard_bytes, poison_byte);
        std::copy_n(reinterpret_cast<const std::byte*>(values.data()), values.size_bytes(), bytes.begin());
        return reinterpret_cast<const T*>(place(bytes.data(), bytes.size()));
    }
    template <class T>
    const T* upload(const std::vector<T>& values) {
        return upload(std::span<const T>(values));
    }
    const float* upload_floats(const Matrix& values) {
        return reinterpret_cast<const float*>(upload(encode(values, DType::f32)));
    }

    std::vector<std::byte> download_bytes(const void* from, size_t bytes) {
        std::vector<std::byte> out(bytes);
        copy(out.data(), from, bytes);
        return out;
    }

    /// The rows' bytes, one after the other.
    std::vector<std::byte> download_bytes(const Tensor& tensor) {
        const size_t row_bytes = bytes_of(tensor.dtype, tensor.columns);
        std::vector<std::byte> out;
        if (tensor.rows == 0) return out;
        const size_t span = bytes_of(tensor.dtype, (tensor.rows - 1) * tensor.stride) + row_bytes;
        const std::vector<std::byte> all = download_bytes(tensor.data, span);
        for (int64_t r = 0; r < tensor.rows; ++r) {
            const auto row = all.begin() + static_cast<int64_t>(bytes_of(tensor.dtype, r * tensor.stride));
            out.insert(out.end(), row, row + static_cast<int64_t>(row_bytes));
        }
        return out;
    }

    Matrix download(const Tensor& tensor) {
        return decode(download_bytes(tensor), tensor.dtype, tensor.rows, tensor.columns);
    }

    /// ‖got − reference‖ / ‖reference‖ is at most what the op itself may lose plus what storing the result costs.
    void expect_near(const Tensor& got, const Matrix& reference, double op_tolerance) {
        const double tolerance = op_tolerance + storing_error(got.dtype, std::ssize(reference.values));
        EXPECT_LE(relative_error(download(got), reference), tolerance);
    }

    void expect_equal(const Tensor& got, const Matrix& reference) {
        EXPECT_EQ(relative_error(download(got), reference), 0.0);
    }

private:
    struct Allocation {
        std::byte* base;
        size_t bytes;
        Tensor tensor;
    };

    static constexpr size_t guard_bytes = 64;
    static constexpr std::byte poison_byte{0xff};

    static void hold_to(const cpu::CpuFeatures& features, int64_t highway_targets) {
        cpu::override_cpu_features_for_test(features);
        hwy::SetSupportedTargetsForTest(highway_targets);
        hwy::GetChosenTarget().DeInit();
    }

    /// Rounding to bf16 moves a value by up to 2^-8 of it, many values by 1.7e-3 in the mean; cutting instead of
    /// rounding, or rounding twice, would show as 3e-3.
    static constexpr double storing_error(DType dtype, int64_t elements) {
        if (dtype != DType::bf16) return 0.0;
        return elements < 256 ? 0x1p-8 : 2e-3;
    }

    void copy(void* to, const void* from, size_t bytes) {
        expect_ok(device_->copy(to, from, bytes, StreamId::compute));
        expect_ok(device_->drain(StreamId::compute));
    }

    std::byte* place(const void* from, size_t bytes) {
        Result<Buffer> buffer = device_->allocate(bytes);
        if (!buffer.is_ok()) throw std::runtime_error(buffer.error().message);
        buffers_.push_back(std::move(*buffer));
        copy(buffers_.back().data(), from, bytes);
        return buffers_.back().as<std::byte>();
    }

    void expect_poison_around(const Allocation& allocation) {
        std::vector<std::byte> bytes = download_bytes(allocation.base, allocation.bytes);
        const Tensor& tensor = allocation.tensor;
        for (int64_t r = 0; r < tensor.rows; ++r) {
            const size_t row = guard_bytes + bytes_of(tensor.dtype, r * tensor.stride);
            std::memset(bytes.data() + row, 0xff, bytes_of(tensor.dtype, tensor.columns));
        }
        const auto written = std::find_if(bytes.begin(), bytes.end(), [](std::byte b) { return b != poison_byte; });
        EXPECT_TRUE(written == bytes.end()) << "written outside the rows of a tensor [" << tensor.rows << ", "
                                            << tensor.columns << "], at byte " << written - bytes.begin();
    }

    std::unique_ptr<Device> device_;
    std::vector<Buffer> buffers_;
    std::vector<Allocation> tensors_;
};

/// The types activations come in.
inline constexpr DType activation_types[] = {DType::f32, DType::bf16};

}  // namespace rondo::test

#define RONDO_ON_EVERY_DEVICE(suite)                                                     \
    INSTANTIATE_TEST_SUITE_P(EveryDevice, suite, testing::ValuesIn(rondo::test::places), \
                             [](const auto& info) { return std::string(info.param.name); })
/// For what only CPUs have: of the places the last is a GPU.
#define RONDO_ON_EVERY_CPU(suite)                                                                                   \
    INSTANTIATE_TEST_SUITE_P(EveryCpu, suite,                                                                       \
                             testing::ValuesIn(std::begin(rondo::test::places), std::end(rondo::test::places) - 1), \
                             [](const auto& info) { return std::string(info.param.name); })
