#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/backend.hpp"

namespace rondo::test {
namespace {

std::unique_ptr<Device> open_cpu() {
    auto opened = open_device({.kind = DeviceKind::cpu, .threads = 1});
    EXPECT_TRUE(opened.is_ok());
    return std::move(opened).value();
}

bool all_are(const Buffer& buffer, uint8_t value) {
    const auto* const bytes = buffer.as<uint8_t>();
    return std::all_of(bytes, bytes + buffer.bytes(), [&](uint8_t byte) { return byte == value; });
}

/// Sizes around a page, a huge page and a region, in an order in which regions are left and opened.
TEST(CpuDevice, BuffersKeepTheirBytesWhileOthersComeAndGo) {
    const auto device = open_cpu();
    const std::vector<size_t> sizes = {0,
                                       1,
                                       4095,
                                       4096,
                                       4097,
                                       size_t{1} << 21,
                                       (size_t{3} << 20) + 5,
                                       (size_t{64} << 20) + 1,
                                       100,
                                       size_t{40} << 20,
                                       size_t{30} << 20,
                                       7};
    std::vector<Buffer> kept;
    for (size_t i = 0; i < sizes.size(); ++i) {
        auto given_back = std::move(device->allocate(sizes[i])).value();
        kept.push_back(std::move(device->allocate(sizes[i])).value());
        EXPECT_EQ(kept.back().bytes(), sizes[i]);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(kept.back().data()) % 64, 0U);
        std::memset(given_back.data(), 0xee, sizes[i]);
        std::memset(kept.back().data(), static_cast<int>(i), sizes[i]);
    }
    for (size_t i = 0; i < kept.size(); i += 2) kept[i] = Buffer();
    for (size_t i = 1; i < kept.size(); i += 2) EXPECT_TRUE(all_are(kept[i], static_cast<uint8_t>(i))) << i;
}

TEST(CpuDevice, ABufferMayOutliveItsDevice) {
    auto device = open_cpu();
    const Buffer buffer = std::move(device->allocate(5000)).value();
    std::memset(buffer.data(), 3, 5000);
    device.reset();
    EXPECT_TRUE(all_are(buffer, 3));
}

TEST(CpuDevice, RefusesMoreThanThereIs) {
    const auto device = open_cpu();
    for (size_t bytes : {std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() - (size_t{1} << 20),
                         size_t{1} << 60}) {
        const auto refused = device->allocate(bytes);
        ASSERT_FALSE(refused.is_ok());
        EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
    }
    EXPECT_TRUE(device->allocate(10).is_ok());
}

}  // namespace
}  // namespace rondo::test
