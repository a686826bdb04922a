#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/ops.hpp"

namespace rondo::test {
namespace {

constexpr StreamId all_streams[] = {StreamId::compute, StreamId::load, StreamId::store};

TEST(CudaDeviceWithoutGpu, OpeningSaysWhyInOneLine) {
    if (cuda_device_count() > 0) GTEST_SKIP() << "there is a GPU here";
    const auto opened = open_device({.kind = DeviceKind::cuda});
    ASSERT_FALSE(opened.is_ok());
    EXPECT_NE(opened.error().message.find("cuda:0"), std::string::npos) << opened.error().message;
    EXPECT_EQ(opened.error().message.find('\n'), std::string::npos) << opened.error().message;
}

TEST(CudaDeviceWithoutGpu, AnOrdinalBeyondTheLastIsRefused) {
    const auto opened = open_device({.kind = DeviceKind::cuda, .ordinal = 1000});
    ASSERT_FALSE(opened.is_ok());
    EXPECT_NE(opened.error().message.find("cuda:1000"), std::string::npos) << opened.error().message;
}

/// What must hold on a real GPU; skipped, visibly, where there is none.
class CudaDevice : public testing::Test {
protected:
    void SetUp() override {
        if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
        auto opened = open_device({.kind = DeviceKind::cuda});
        ASSERT_TRUE(opened.is_ok()) << opened.error().message;
        device_ = std::move(*opened);
    }

    Buffer allocate(size_t bytes) {
        auto buffer = device_->allocate(bytes);
        if (!buffer.is_ok()) throw std::runtime_error(buffer.error().message);
        return std::move(*buffer);
    }

    void copy(void* to, const void* from, size_t bytes, StreamId stream) {
        const Status copied = device_->copy(to, from, bytes, stream);
        ASSERT_TRUE(copied.is_ok()) << copied.error().message;
    }

    void wait(StreamId stream) {
        const Status waited = device_->drain(stream);
        ASSERT_TRUE(waited.is_ok()) << waited.error().message;
    }

    Mark record(StreamId stream) {
        const auto mark = device_->record(stream);
        if (!mark.is_ok()) throw std::runtime_error(mark.error().message);
        return *mark;
    }

    void fill(const Buffer& buffer, uint8_t value) {
        const std::vector<uint8_t> bytes(buffer.bytes(), value);
        copy(buffer.data(), bytes.data(), bytes.size(), StreamId::compute);
        wait(StreamId::compute);
    }

    uint8_t first_byte(const Buffer& buffer, StreamId stream) {
        uint8_t value = 0;
        copy(&value, buffer.data(), 1, stream);
        wait(stream);
        return value;
    }

    /// Milliseconds of copies from GPU memory to itself: the host does not wait for them, whatever comes behind does.
    void keep_busy(StreamId stream) {
        if (busy_from_.data() == nullptr) {
            busy_from_ = allocate(busy_bytes);
            busy_to_ = allocate(busy_bytes);
        }
        for (int i = 0; i < 100; ++i) copy(busy_to_.data(), busy_from_.data(), busy_bytes, stream);
    }

    static constexpr size_t busy_bytes = size_t{64} << 20;
    std::unique_ptr<Device> device_;
    Buffer busy_from_;
    Buffer busy_to_;
};

TEST_F(CudaDevice, NamesItselfAndItsSpace) {
    EXPECT_EQ(device_->name().rfind("cuda:0 (", 0), 0U) << device_->name();
    EXPECT_EQ(device_->space(), (MemorySpace{DeviceKind::cuda, 0}));
    EXPECT_EQ(allocate(1).space(), device_->space());
}

/// Without cuBLASLt a kernel of our own takes every product, and every other test passes all the same.
TEST_F(CudaDevice, HasCublasLt) {
    EXPECT_EQ(device_->name().find("slow"), std::string::npos) << device_->name();
}

TEST_F(CudaDevice, BuffersAreAligned) {
    for (size_t bytes : {1, 3, 64, 1000}) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(allocate(bytes).data()) % 64, 0U) << bytes;
    }
}

TEST_F(CudaDevice, BytesComeBackFromEveryStream) {
    for (StreamId stream : all_streams) {
        for (size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, (size_t{5} << 20) + 3}) {
            std::vector<uint8_t> sent(bytes);
            std::iota(sent.begin(), sent.end(), static_cast<uint8_t>(bytes));
            const Buffer there = allocate(bytes);
            const Buffer beside = allocate(bytes);
            std::vector<uint8_t> back(bytes);
            copy(there.data(), sent.data(), bytes, stream);
            copy(beside.data(), there.data(), bytes, stream);
            copy(back.data(), beside.data(), bytes, stream);
            wait(stream);
            EXPECT_TRUE(back == sent) << bytes << " bytes";
        }
    }
}

TEST_F(CudaDevice, AStreamWaitsForAMarkOfAnother) {
    const Buffer early = allocate(1);
    const Buffer middle = allocate(1);
    const Buffer late = allocate(1);
    for (StreamId before : all_streams) {
        for (StreamId after : all_streams) {
            fill(early, 7);
            fill(middle, 0);
            fill(late, 0);
            keep_busy(before);
            copy(middle.data(), early.data(), 1, before);
            ASSERT_TRUE(device_->wait(after, record(before)).is_ok());
            copy(late.data(), middle.data(), 1, after);
            EXPECT_EQ(first_byte(late, after), 7);
        }
    }
}

TEST_F(CudaDevice, TheHostWaitsForAMarkAndNotForWhatFollows) {
    const Buffer from = allocate(1);
    const auto pinned = device_->allocate_host(1);
    ASSERT_TRUE(pinned.is_ok());
    fill(from, 6);
    for (StreamId stream : all_streams) {
        *pinned->as<uint8_t>() = 0;
        keep_busy(stream);
        copy(pinned->data(), from.data(), 1, stream);
        const Mark copied = record(stream);
        keep_busy(stream);
        std::atomic<bool> passed = false;
        ASSERT_TRUE(device_->notify(stream, [&](Status) { passed = true; }).is_ok());
        ASSERT_TRUE(device_->reach(copied).is_ok());
        EXPECT_EQ(*pinned->as<uint8_t>(), 6);
        EXPECT_FALSE(passed);
        wait(stream);
        while (!passed) std::this_thread::yield();
    }
}

TEST_F(CudaDevice, MarksOfLongAgoAreReached) {
    const Buffer from = allocate(1);
    const auto pinned = device_->allocate_host(1);
    ASSERT_TRUE(pinned.is_ok());
    fill(from, 4);
    *pinned->as<uint8_t>() = 0;
    copy(pinned->data(), from.data(), 1, StreamId::store);
    const Mark first = record(StreamId::store);
    for (int i = 0; i < 10000; ++i) (void)record(StreamId::store);
    ASSERT_TRUE(device_->wait(StreamId::load, first).is_ok());
    ASSERT_TRUE(device_->reach(first).is_ok());
    EXPECT_EQ(*pinned->as<uint8_t>(), 4);
    EXPECT_TRUE(device_->reach({}).is_ok()) << "a mark before everything";
}

TEST_F(CudaDevice, PinnedMemoryIsTheHostsAndMayOutliveTheDevice) {
    auto pinned = device_->allocate_host(1000);
    ASSERT_TRUE(pinned.is_ok());
    EXPECT_EQ(pinned->space(), (MemorySpace{}));
    const auto another = device_->allocate_host(10'000);
    for (const Buffer* one : {static_cast<const Buffer*>(&*pinned), &*another})
        EXPECT_EQ(reinterpret_cast<uintptr_t>(one->data()) % 4096, 0U) << "disks read into it";
    EXPECT_EQ(device_->allocate_host(0)->bytes(), 0U);
    EXPECT_EQ(device_->allocate_host(size_t{1} << 50).error().code, ErrorCode::out_of_memory);
    device_.reset();
    std::memset(pinned->data(), 1, 1000);
}

TEST_F(CudaDevice, StreamsNotOrderedDoNotWaitForEachOther) {
    const Buffer small = allocate(1);
    fill(small, 9);
    EXPECT_EQ(first_byte(small, StreamId::compute), 9);  // once before, so that nothing is set up while time counts
    keep_busy(StreamId::store);
    std::promise<void> stored;
    std::future<void> store_done = stored.get_future();
    ASSERT_TRUE(device_->notify(StreamId::store, [&](Status) { stored.set_value(); }).is_ok());
    EXPECT_EQ(first_byte(small, StreamId::compute), 9);
    EXPECT_EQ(store_done.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    store_done.wait();
}

TEST_F(CudaDevice, NotifyComesAfterTheWorkBeforeIt) {
    const Buffer from = allocate(1);
    const Buffer to = allocate(1);
    for (StreamId stream : all_streams) {
        fill(from, 5);
        fill(to, 0);
        keep_busy(stream);
        copy(to.data(), from.data(), 1, stream);
        std::promise<bool> reported;
        ASSERT_TRUE(device_->notify(stream, [&](Status status) { reported.set_value(status.is_ok()); }).is_ok());
        EXPECT_TRUE(reported.get_future().get());
        // Another stream that nothing orders behind this one sees the result, so the work was over.
        EXPECT_EQ(first_byte(to, stream == StreamId::load ? StreamId::store : StreamId::load), 5);
    }
}

TEST_F(CudaDevice, NotificationsOfAStreamKeepTheirOrder) {
    constexpr int count = 1000;
    std::vector<int> seen;  // written by the stream's completion thread alone, read after its last report
    seen.reserve(count);
    std::promise<void> all;
    for (int i = 0; i < count; ++i) {
        const auto done = [&seen, &all, i](Status) {
            seen.push_back(i);
            if (i + 1 == count) all.set_value();
        };
        ASSERT_TRUE(device_->notify(StreamId::compute, done).is_ok());
    }
    all.get_future().wait();
    std::vector<int> expected(count);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(seen, expected);
}

TEST_F(CudaDevice, ClosingReportsWhatIsPending) {
    keep_busy(StreamId::load);
    int reports = 0;
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(device_->notify(StreamId::load, [&](Status) { ++reports; }).is_ok());
    }
    device_.reset();
    EXPECT_EQ(reports, 3);
}

TEST_F(CudaDevice, BuffersMayOutliveTheirDevice) {
    Buffer buffer = allocate(1000);
    fill(buffer, 3);
    device_.reset();
    auto again = open_device({.kind = DeviceKind::cuda});
    ASSERT_TRUE(again.is_ok()) << again.error().message;
    device_ = std::move(*again);
    EXPECT_EQ(first_byte(buffer, StreamId::compute), 3);
}

TEST_F(CudaDevice, TooLargeAnAllocationIsAnErrorAndHarmsNothing) {
    for (size_t bytes : {size_t{1} << 50, std::numeric_limits<size_t>::max()}) {
        const auto refused = device_->allocate(bytes);
        ASSERT_FALSE(refused.is_ok());
        EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory) << refused.error().message;
    }
    const Buffer buffer = allocate(16);
    fill(buffer, 1);
    EXPECT_EQ(first_byte(buffer, StreamId::compute), 1);
}

TEST_F(CudaDevice, SparseOpsAreRefusedInOneLine) {
    const Ops::ConsumeRows nobody = [](int, const Tensor&) {};
    for (const Status& refused :
         {device_->ops().attend_selected({}, nullptr, nullptr), device_->ops().attend_lines({}, {}),
          device_->ops().score_rows({}, nobody), device_->ops().score_selected({}, {}, {}, nullptr),
          device_->ops().move_kv({}, nullptr, nullptr, nullptr, 0)}) {
        ASSERT_FALSE(refused.is_ok());
        EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
        EXPECT_NE(refused.error().message.find("dense"), std::string::npos);
        EXPECT_EQ(refused.error().message.find('\n'), std::string::npos);
    }
}

}  // namespace
}  // namespace rondo::test
