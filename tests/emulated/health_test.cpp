#include "tests/emulated/health.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <limits>

#include "kernels/backend.hpp"
#include "kernels/ops.hpp"
#include "tests/emulated/memory.hpp"

namespace rondo::emulated {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Device> open_emulated() {
    auto opened = open_device({.kind = DeviceKind::cuda});
    if (!opened.is_ok()) throw std::runtime_error(opened.error().message);
    return std::move(*opened);
}

TEST(EmulatedDevice, SaysThatItIsOne) {
    EXPECT_EQ(open_emulated()->name(), "cuda:0 (emulated)");
}

/// What no kernel can be made to do without harm, a GPU that has failed: Rondo's calls must say so, one by one.
TEST(EmulatedDevice, AfterAFaultEveryCallFailsAndNotificationsSaySo) {
    const auto device = open_emulated();
    Buffer buffer = std::move(device->allocate(16).value());
    break_down("a fault of this test");
    EXPECT_THAT(device->allocate(16).error().message, HasSubstr("a fault of this test"));
    EXPECT_FALSE(device->drain(StreamId::compute).is_ok());
    EXPECT_FALSE(device->ops()
                     .softmax(Tensor::of(buffer.data(), DType::f32, 1, 4), Tensor::of(buffer.data(), DType::f32, 1, 4))
                     .is_ok());
    ASSERT_TRUE(take_fault().has_value());
    EXPECT_TRUE(device->drain(StreamId::compute).is_ok());
}

TEST(EmulatedDevice, ANotificationThatWaitsWhenTheGpuFailsReportsTheFault) {
    const auto device = open_emulated();
    std::promise<void> held;
    std::promise<Status> reported;
    // The first report comes while the second one's event is recorded behind it.
    ASSERT_TRUE(device->notify(StreamId::load, [&](Status) { held.get_future().wait(); }).is_ok());
    ASSERT_TRUE(device->notify(StreamId::load, [&](Status status) { reported.set_value(status); }).is_ok());
    break_down("a fault of this test");
    held.set_value();
    EXPECT_THAT(reported.get_future().get().error().message, HasSubstr("a fault of this test"));
    (void)take_fault();
}

TEST(EmulatedDevice, ACopyBeyondAnAllocationIsRefused) {
    const auto device = open_emulated();
    const Buffer buffer = std::move(device->allocate(100).value());
    std::vector<std::byte> host(200);
    EXPECT_FALSE(device->copy(host.data(), buffer.data(), 101, StreamId::compute).is_ok());
    EXPECT_FALSE(device->copy(buffer.as<std::byte>() + 50, host.data(), 51, StreamId::compute).is_ok());
    EXPECT_TRUE(device->copy(buffer.as<std::byte>() + 50, host.data(), 50, StreamId::compute).is_ok());
}

TEST(EmulatedMemory, IsNotANumberUntilItIsWritten) {
    const auto device = open_emulated();
    const Buffer buffer = std::move(device->allocate(sizeof(float)).value());
    float value = 0.0F;
    ASSERT_TRUE(device->copy(&value, buffer.data(), sizeof value, StreamId::compute).is_ok());
    EXPECT_TRUE(std::isnan(value));
}

TEST(EmulatedMemory, EndsSomewhereAndComesBack) {
    const size_t before = memory_bytes_free();
    EXPECT_EQ(allocate(memory_bytes() + 1), nullptr);
    EXPECT_EQ(allocate(std::numeric_limits<size_t>::max()), nullptr);
    void* const data = allocate(1000);
    EXPECT_EQ(memory_bytes_free(), before - 1000);
    EXPECT_EQ(bytes_left_at(static_cast<std::byte*>(data) + 999), 1U);
    EXPECT_EQ(bytes_left_at(static_cast<std::byte*>(data) + 1000), std::nullopt);
    EXPECT_TRUE(free_memory(data));
    EXPECT_FALSE(free_memory(data));
    EXPECT_EQ(memory_bytes_free(), before);
}

}  // namespace
}  // namespace rondo::emulated
