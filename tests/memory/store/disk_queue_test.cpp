#include "memory/store/disk_queue.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <numeric>
#include <vector>

#include "tests/memory/store/store_fixture.hpp"

namespace rondo {
namespace {

using Way = DiskQueue::Way;
using Kind = DiskWork::Kind;

class EachWay : public ::testing::TestWithParam<std::pair<Way, int>> {
protected:
    EachWay() {
        Result<std::unique_ptr<DiskQueue>> opened = DiskQueue::open({GetParam().second, GetParam().first});
        if (opened) queue_ = std::move(*opened);
        path_ = folder_.path() + "/file";
        file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    }
    ~EachWay() override {
        queue_.reset();
        close(file_);
    }
    void SetUp() override {
        if (queue_ == nullptr) GTEST_SKIP() << "the kernel refuses io_uring";
        ASSERT_EQ(queue_->way(), GetParam().first);
    }
    Status run(Kind kind, std::byte* memory, size_t bytes, uint64_t offset) {
        return run(kind, {{memory, bytes}}, offset);
    }
    Status run(Kind kind, MemoryParts memory, uint64_t offset) {
        std::promise<Status> done;
        auto status = done.get_future();
        queue_->submit({kind, file_, offset, std::move(memory), [&](Status end) { done.set_value(std::move(end)); }});
        return status.get();
    }

    testing::Folder folder_;
    std::string path_;
    int file_ = -1;
    std::unique_ptr<DiskQueue> queue_;
};

TEST_P(EachWay, ReadsWhatItWrote) {
    AlignedBytes out(64 * 1024), in(64 * 1024);
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i * 7 + i / 256);
    ASSERT_TRUE(run(Kind::write, out.data(), out.size(), 8192));
    ASSERT_TRUE(run(Kind::sync, nullptr, 0, 0));
    ASSERT_TRUE(run(Kind::read, in.data(), in.size(), 8192));
    EXPECT_TRUE(std::equal(out.data(), out.data() + out.size(), in.data()));
    ASSERT_TRUE(run(Kind::read, in.data(), 8192, 0));
    EXPECT_TRUE(std::all_of(in.data(), in.data() + 8192, [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_TRUE(run(Kind::read, in.data(), 0, 0)) << "nothing is read at once";
}

TEST_P(EachWay, MemoryMayLieInMorePartsThanTheKernelTakes) {
    constexpr size_t part = 4096, parts = 2500;
    AlignedBytes out(part * parts), in(part * parts);
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i * 7 + i / 256);
    ASSERT_TRUE(run(Kind::write, out.data(), out.size(), 0));
    MemoryParts backwards;
    for (size_t i = parts; i-- > 0;) backwards.push_back(in.span().subspan(i * part, part));
    ASSERT_TRUE(run(Kind::read, backwards, 0));
    for (size_t i = 0; i < parts; ++i)
        ASSERT_TRUE(std::equal(out.data() + i * part, out.data() + (i + 1) * part, in.data() + (parts - 1 - i) * part));
    const MemoryParts within = parts_within(backwards, part + 100, 2 * part);
    ASSERT_EQ(within.size(), 3);
    EXPECT_EQ(within[0].data(), backwards[1].data() + 100);
    EXPECT_EQ(within[2].size(), 100);
    EXPECT_EQ(bytes_of(within), 2 * part);
}

TEST_P(EachWay, AFileThatEndsTooEarlyIsCorrupt) {
    AlignedBytes bytes(8192);
    ASSERT_TRUE(run(Kind::write, bytes.data(), 5000, 0));
    const Status status = run(Kind::read, bytes.data(), bytes.size(), 0);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::corrupt);
    EXPECT_EQ(run(Kind::read, bytes.data(), 4096, 1 << 20).error().code, ErrorCode::corrupt);
}

TEST_P(EachWay, WhatTheKernelRefusesIsSaid) {
    AlignedBytes bytes(4096);
    close(file_);
    file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    const Status written = run(Kind::write, bytes.data(), bytes.size(), 0);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, ErrorCode::io);
    EXPECT_NE(written.error().message.find("write: "), std::string::npos);
    close(file_);
    file_ = open("/dev/full", O_RDWR | O_CLOEXEC);
    const Status full = run(Kind::write, bytes.data(), bytes.size(), 0);
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().code, ErrorCode::out_of_memory) << full.error().message;
}

/// More than may be under way, from several threads; each end is told once.
TEST_P(EachWay, TenThousandAtOnceEndOnceEach) {
    constexpr int threads = 4, each = 2500;
    std::vector<AlignedBytes> blocks;
    for (int i = 0; i < threads; ++i) blocks.emplace_back(4096);
    std::vector<std::atomic<int>> ended(threads * each);
    std::atomic<int> failed = 0;
    std::vector<std::thread> submitting;
    for (int t = 0; t < threads; ++t) {
        submitting.emplace_back([&, t] {
            for (int i = 0; i < each; ++i) {
                queue_->submit({Kind::write,
                                file_,
                                static_cast<uint64_t>((i % 64) * threads + t) * 4096,
                                {blocks[static_cast<size_t>(t)].span()},
                                [&, n = t * each + i](const Status& end) {
                                    ++ended[static_cast<size_t>(n)];
                                    if (!end && ++failed == 1) ADD_FAILURE() << end.error().message;
                                }});
            }
        });
    }
    for (std::thread& thread : submitting) thread.join();
    queue_.reset();  // waits for all
    EXPECT_EQ(failed, 0);
    EXPECT_TRUE(std::ranges::all_of(ended, [](const std::atomic<int>& count) { return count == 1; }));
}

/// What comes after an end is submitted from there.
TEST_P(EachWay, WorkMaySubmitMore) {
    AlignedBytes bytes(4096);
    std::promise<void> last;
    int left = 200;
    std::function<void(Status)> next = [&](const Status& end) {
        EXPECT_TRUE(end);
        if (--left == 0) return last.set_value();
        queue_->submit({Kind::write, file_, 0, {bytes.span()}, next});
    };
    queue_->submit({Kind::write, file_, 0, {bytes.span()}, next});
    last.get_future().get();
    EXPECT_EQ(left, 0);
}

INSTANTIATE_TEST_SUITE_P(DiskQueue, EachWay,
                         ::testing::Values(std::pair(Way::io_uring, 1), std::pair(Way::io_uring, 32),
                                           std::pair(Way::threads, 1), std::pair(Way::threads, 32)),
                         [](const auto& of) {
                             return (of.param.first == Way::io_uring ? "io_uring" : "threads") +
                                    std::to_string(of.param.second);
                         });

TEST(DiskQueue, RefusesAnImpossibleDepth) {
    for (const int depth : {-1, 0, 1025, 1 << 30}) {
        const auto opened = DiskQueue::open({depth, {}});
        ASSERT_FALSE(opened);
        EXPECT_NE(opened.error().message.find("must be 1 to 1024"), std::string::npos);
    }
}

}  // namespace
}  // namespace rondo
