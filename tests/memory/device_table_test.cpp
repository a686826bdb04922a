#include "memory/device_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "tests/memory/store/stand_in_gpu.hpp"

namespace rondo {
namespace {

/// A GPU that makes a copy no sooner than the host waits for it.
class LateCopies final : public testing::StandInGpu {
public:
    Status copy(void* dst, const void* src, size_t bytes, StreamId) override {
        if (refuses) return make_error(ErrorCode::internal, "refused");
        if (bytes > 0) copies_.push_back({dst, src, bytes});
        return Status::ok();
    }
    Result<Mark> record(StreamId stream) override { return Mark{stream, copies_.size()}; }
    Status reach(Mark mark) override {
        for (; made_ < mark.number; ++made_) std::memcpy(copies_[made_].to, copies_[made_].from, copies_[made_].bytes);
        return Status::ok();
    }
    Status drain(StreamId stream) override { return reach(Mark{stream, copies_.size()}); }

    bool refuses = false;

private:
    std::vector<Copy> copies_;
    size_t made_ = 0;
};

/// What a kernel reads that is enqueued now. It is there when the stream is empty.
template <size_t count>
void read_later(LateCopies& gpu, const DeviceTable<int32_t>& table, std::array<int32_t, count>& to) {
    ASSERT_TRUE(gpu.copy(to.data(), table.data(), sizeof(to), StreamId::compute).is_ok());
}

TEST(DeviceTable, MayBeWrittenAgainBeforeItsCopyIsMade) {
    LateCopies gpu;
    DeviceTable<int32_t> table;
    std::array<int32_t, 2> first{}, second{};
    table.host() = {1, 2};
    ASSERT_TRUE(table.send(gpu).is_ok());
    read_later(gpu, table, first);
    table.host() = {3, 4};
    ASSERT_TRUE(table.send(gpu).is_ok());
    read_later(gpu, table, second);
    table.host() = {5, 6};
    ASSERT_TRUE(gpu.drain(StreamId::compute).is_ok());
    EXPECT_EQ(first, (std::array<int32_t, 2>{1, 2}));
    EXPECT_EQ(second, (std::array<int32_t, 2>{3, 4}));
}

TEST(DeviceTable, MayGrowAndMoveBeforeItsCopyIsMade) {
    LateCopies gpu;
    DeviceTable<int32_t> table;
    std::array<int32_t, 3> read{};
    table.host() = {7};
    ASSERT_TRUE(table.send(gpu).is_ok());
    table.host().assign(3, 8);  // more than there was room for on the GPU
    ASSERT_TRUE(table.send(gpu).is_ok());
    read_later(gpu, table, read);
    table.host() = std::vector<int32_t>(3, 9);  // in other memory
    ASSERT_TRUE(gpu.drain(StreamId::compute).is_ok());
    EXPECT_EQ(read, (std::array<int32_t, 3>{8, 8, 8}));
}

TEST(DeviceTable, AllocatesNothingUpToWhatWasReserved) {
    LateCopies gpu;
    DeviceTable<int32_t> table;
    ASSERT_TRUE(table.reserve(gpu, 3).is_ok());
    EXPECT_EQ(gpu.host_allocations, 1);
    table.host() = {1};
    ASSERT_TRUE(table.send(gpu).is_ok());
    table.host().assign(3, 2);
    ASSERT_TRUE(table.reserve(gpu, 2).is_ok());
    ASSERT_TRUE(table.send(gpu).is_ok());
    EXPECT_EQ(gpu.host_allocations, 1);
    table.host().assign(4, 3);
    ASSERT_TRUE(table.send(gpu).is_ok());
    EXPECT_EQ(gpu.host_allocations, 2);
    std::array<int32_t, 4> read{};
    read_later(gpu, table, read);
    ASSERT_TRUE(gpu.drain(StreamId::compute).is_ok());
    EXPECT_EQ(read, (std::array<int32_t, 4>{3, 3, 3, 3}));
}

TEST(DeviceTable, MustBeSentAgainWhereReservingMovedIt) {
    LateCopies gpu;
    const std::unique_ptr<Device> cpu = open_device({DeviceKind::cpu, 0, 1}).value();
    for (Device* const device : {static_cast<Device*>(&gpu), cpu.get()}) {
        DeviceTable<int32_t> table;
        table.host() = {1, 2};
        ASSERT_TRUE(table.send(*device).is_ok());
        const int32_t* const sent = table.data();
        ASSERT_TRUE(table.reserve(*device, 2).is_ok());
        EXPECT_EQ(table.data(), sent) << "there was room: nothing has moved";
        ASSERT_TRUE(table.reserve(*device, 1000).is_ok());
        EXPECT_EQ(table.data(), nullptr);
        ASSERT_TRUE(table.send(*device).is_ok());
        EXPECT_NE(table.data(), nullptr);
    }
}

TEST(DeviceTable, IsNotThereWhereItCouldNotBeSent) {
    LateCopies gpu;
    DeviceTable<int32_t> table;
    table.host() = {1, 2};
    gpu.refuses = true;
    EXPECT_FALSE(table.send(gpu).is_ok());
    EXPECT_EQ(table.data(), nullptr);
    gpu.refuses = false;
    EXPECT_TRUE(table.send(gpu).is_ok());
    EXPECT_NE(table.data(), nullptr);
}

TEST(DeviceTable, LeavesNothingBehindWhereItMovedFrom) {
    LateCopies gpu;
    const std::unique_ptr<Device> cpu = open_device({DeviceKind::cpu, 0, 1}).value();
    for (Device* const device : {static_cast<Device*>(&gpu), cpu.get()}) {
        DeviceTable<int32_t> from;
        from.host() = {1, 2};
        ASSERT_TRUE(from.send(*device).is_ok());
        const int32_t* const sent = from.data();
        DeviceTable<int32_t> built(std::move(from));
        EXPECT_EQ(built.data(), sent);
        EXPECT_EQ(from.data(), nullptr);  // NOLINT(bugprone-use-after-move)
        EXPECT_TRUE(from.host().empty());
        DeviceTable<int32_t> assigned;
        assigned = std::move(built);
        EXPECT_EQ(assigned.data(), sent);
        EXPECT_EQ(built.data(), nullptr);  // NOLINT(bugprone-use-after-move)
        EXPECT_EQ(assigned.host(), (std::vector<int32_t>{1, 2}));
        ASSERT_TRUE(device->drain(StreamId::compute).is_ok());  // the copies have their ends still
    }
}

TEST(DeviceTable, SendsNothingOfAnEmptyTable) {
    LateCopies gpu;
    DeviceTable<int32_t> table;
    EXPECT_TRUE(table.send(gpu).is_ok());
    EXPECT_TRUE(gpu.drain(StreamId::compute).is_ok());
    EXPECT_EQ(gpu.host_allocations, 0);
}

TEST(DeviceTable, IsReadWhereTheHostWroteItOnACpu) {
    const std::unique_ptr<Device> cpu = open_device({DeviceKind::cpu, 0, 1}).value();
    DeviceTable<int32_t> table;
    table.host() = {1, 2};
    ASSERT_TRUE(table.send(*cpu).is_ok());
    EXPECT_EQ(table.data(), table.host().data());
}

}  // namespace
}  // namespace rondo
