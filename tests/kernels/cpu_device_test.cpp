#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <limits>
#include <string>
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

/// Pages that lie in memory.
size_t resident_pages(const Buffer& buffer) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> is_there((buffer.bytes() + page - 1) / page);
    EXPECT_EQ(mincore(buffer.data(), buffer.bytes(), is_there.data()), 0);
    return static_cast<size_t>(std::ranges::count_if(is_there, [](unsigned char bits) { return bits & 1; }));
}

TEST(CpuDevice, APoolTakesThePagesThatAreWritten) {
    const auto device = open_cpu();
    const Buffer pool = std::move(device->allocate_pool(size_t{40} << 20)).value();
    EXPECT_EQ(resident_pages(pool), 0U);
    for (size_t at = 0; at < pool.bytes(); at += size_t{4} << 20) pool.as<uint8_t>()[at] = 1;
    EXPECT_EQ(resident_pages(pool), 10U);
    std::memset(pool.data(), 2, pool.bytes());
    EXPECT_TRUE(all_are(pool, 2));
    EXPECT_TRUE(device->allocate_pool(0).is_ok());
    EXPECT_FALSE(device->allocate_pool(std::numeric_limits<size_t>::max()).is_ok());
}

/// Whether the system gives a huge page for the first byte of one: it may never do so, or have none that is whole.
bool gives_huge_pages() {
    constexpr size_t huge = size_t{2} << 20, pages = 512;
    void* const reserved = mmap(nullptr, 2 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (reserved == MAP_FAILED) return false;
    auto* const page = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(reserved) + huge - 1) / huge * huge);
    std::vector<unsigned char> is_there(pages);
    const bool asked = madvise(page, huge, MADV_HUGEPAGE) == 0;
    *page = std::byte{1};
    const bool given = asked && mincore(page, huge, is_there.data()) == 0 && (is_there.back() & 1) != 0;
    munmap(reserved, 2 * huge);
    return given;
}

/// Bytes up to 3 MiB are there when those up to 7 MiB are expected: they stay as they are, and so do others' pages.
TEST(CpuDevice, APoolsExpectedBytesTakeHugePages) {
    const auto device = open_cpu();
    const Buffer pool = std::move(device->allocate_pool(size_t{12} << 20)).value();
    auto* const stretch = pool.as<std::byte>() + 5000;
    const size_t mib = size_t{1} << 20;
    std::memset(stretch, 3, 3 * mib);
    const size_t written = resident_pages(pool);
    device->expect_pool(stretch, 3 * mib, 7 * mib);
    EXPECT_TRUE(std::all_of(stretch, stretch + 3 * mib, [](std::byte byte) { return byte == std::byte{3}; }));
    EXPECT_LT(resident_pages(pool), written + 512);  // of one page the rest, at most
    const auto middle = (reinterpret_cast<uintptr_t>(stretch) + 3 * mib + 2 * mib) / (2 * mib) * (2 * mib);
    *reinterpret_cast<std::byte*>(middle) = std::byte{4};
    const bool are_given = gives_huge_pages();
    if (are_given) EXPECT_GE(resident_pages(pool), written + 512);
    device->expect_pool(stretch, 7 * mib, 7 * mib);
    device->expect_pool(stretch, 7 * mib, 7 * mib + 1);
    const size_t before = resident_pages(pool);
    stretch[10 * mib] = std::byte{5};  // not expected
    EXPECT_EQ(resident_pages(pool), before + 1);
    if (!are_given) GTEST_SKIP() << "the system gives no huge pages here";
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

/// Threads' stacks as large as the whole address space, so that no thread can be made.
class NoMoreThreads {
public:
    NoMoreThreads() {
        pthread_getattr_default_np(&before_);
        pthread_attr_t wanted;
        pthread_getattr_default_np(&wanted);
        pthread_attr_setstacksize(&wanted, size_t{1} << 47);
        pthread_setattr_default_np(&wanted);
        pthread_attr_destroy(&wanted);
    }
    NoMoreThreads(const NoMoreThreads&) = delete;
    NoMoreThreads& operator=(const NoMoreThreads&) = delete;
    ~NoMoreThreads() {
        pthread_setattr_default_np(&before_);
        pthread_attr_destroy(&before_);
    }

private:
    pthread_attr_t before_;
};

/// Even a device of one thread has two more, for its load and its store stream.
TEST(CpuDevice, AMachineWithoutRoomForItsThreadsIsToldWhenItIsOpened) {
    for (const int threads : {1, 2}) {
        const NoMoreThreads here;
        const auto opened = open_device({.kind = DeviceKind::cpu, .threads = threads});
        ASSERT_FALSE(opened);
        EXPECT_EQ(opened.error().code, ErrorCode::out_of_memory);
        EXPECT_NE(opened.error().message.find("cannot start"), std::string::npos) << opened.error().message;
    }
    EXPECT_TRUE(open_device({.kind = DeviceKind::cpu, .threads = 2}));
}

constexpr StreamId all_streams[] = {StreamId::compute, StreamId::load, StreamId::store};

/// Copies that take milliseconds on streams with threads of their own.
class CpuStreams : public testing::Test {
protected:
    void keep_busy(StreamId stream) {
        for (int i = 0; i < 8; ++i) ASSERT_TRUE(device_->copy(to_.data(), from_.data(), from_.size(), stream).is_ok());
    }

    std::unique_ptr<Device> device_ = open_cpu();
    std::vector<uint8_t> from_ = std::vector<uint8_t>(size_t{16} << 20, 1), to_ = from_;
};

TEST_F(CpuStreams, AStreamWaitsForAMarkOfAnother) {
    for (StreamId before : all_streams) {
        for (StreamId after : all_streams) {
            uint8_t early = 7, middle = 0, late = 0;
            keep_busy(before);
            ASSERT_TRUE(device_->copy(&middle, &early, 1, before).is_ok());
            const auto mark = device_->record(before);
            ASSERT_TRUE(mark.is_ok());
            ASSERT_TRUE(device_->wait(after, *mark).is_ok());
            ASSERT_TRUE(device_->copy(&late, &middle, 1, after).is_ok());
            ASSERT_TRUE(device_->drain(after).is_ok());
            EXPECT_EQ(late, 7);
            ASSERT_TRUE(device_->drain(before).is_ok());
        }
    }
}

TEST_F(CpuStreams, TheHostWaitsForAMarkAndNotForWhatFollows) {
    for (StreamId stream : {StreamId::load, StreamId::store}) {
        uint8_t from = 6, to = 0;
        ASSERT_TRUE(device_->copy(&to, &from, 1, stream).is_ok());
        const auto mark = device_->record(stream);
        ASSERT_TRUE(mark.is_ok());
        std::promise<void> end;
        std::atomic<bool> passed = false;
        ASSERT_TRUE(device_
                        ->notify(stream,
                                 [&](Status) {
                                     end.get_future().wait();
                                     passed = true;
                                 })
                        .is_ok());
        ASSERT_TRUE(device_->reach(*mark).is_ok());
        EXPECT_EQ(to, 6);
        EXPECT_FALSE(passed);
        end.set_value();
        ASSERT_TRUE(device_->drain(stream).is_ok());
        EXPECT_TRUE(passed);
    }
    EXPECT_TRUE(device_->reach({}).is_ok()) << "a mark before everything";
    EXPECT_TRUE(device_->reach({StreamId::load, 0}).is_ok());
}

/// Whoever waits on one stream for another and the other way round does so in an order, so nothing locks up.
TEST_F(CpuStreams, TwoStreamsMayWaitForEachOtherInTurn) {
    int64_t count = 0;
    const auto add_one = [&](Status) { ++count; };
    for (int i = 0; i < 1000; ++i) {
        const StreamId stream = i % 2 == 0 ? StreamId::load : StreamId::store;
        const StreamId other = i % 2 == 0 ? StreamId::store : StreamId::load;
        ASSERT_TRUE(device_->wait(stream, *device_->record(other)).is_ok());
        ASSERT_TRUE(device_->notify(stream, add_one).is_ok());
    }
    ASSERT_TRUE(device_->drain(StreamId::load).is_ok());
    ASSERT_TRUE(device_->drain(StreamId::store).is_ok());
    EXPECT_EQ(count, 1000);
}

}  // namespace
}  // namespace rondo::test
