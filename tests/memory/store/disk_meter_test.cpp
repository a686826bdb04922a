#include "memory/store/disk_meter.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "tests/memory/store/store_fixture.hpp"

namespace rondo {
namespace {

/// A disk that does what it is told when the test says so.
class HeldDisk : public DiskQueue {
public:
    explicit HeldDisk(std::vector<DiskWork>& work) : work_(work) {}
    void submit(DiskWork work) override { work_.push_back(std::move(work)); }
    Way way() const override { return Way::threads; }

private:
    std::vector<DiskWork>& work_;
};

class DiskMeterTest : public ::testing::Test {
protected:
    using Kind = DiskWork::Kind;

    DiskMeterTest() {
        std::ofstream(path_).put('x');
        std::filesystem::resize_file(path_, 2 * DiskMeter::probe_bytes);
    }
    void end_all(const Status& status) {
        for (DiskWork& work : std::exchange(work_, {})) work.done(status);
    }
    static Status error() { return make_error(ErrorCode::io, "the disk has errors"); }

    testing::Folder folder_;
    const std::string path_ = folder_.path() + "/file";
    std::vector<DiskWork> work_;
    DiskMeter disk_{std::make_unique<HeldDisk>(work_)};
};

TEST_F(DiskMeterTest, CountsWhatIsToBeWrittenUntilItHasEnded) {
    std::vector<std::byte> bytes(3 * disk_alignment);
    int ended = 0;
    const auto submit = [&](Kind kind, size_t count) {
        disk_.submit({kind, -1, 0, {std::span(bytes).first(count)}, [&ended](const Status&) { ++ended; }});
    };
    submit(Kind::write, disk_alignment);
    submit(Kind::read, disk_alignment);
    submit(Kind::sync, 0);
    EXPECT_EQ(disk_.bytes_to_write(), disk_alignment);
    submit(Kind::write, 3 * disk_alignment);
    EXPECT_EQ(disk_.bytes_to_write(), 4 * disk_alignment);
    end_all(error());
    EXPECT_EQ(disk_.bytes_to_write(), 0U);
    EXPECT_EQ(ended, 4);
}

TEST_F(DiskMeterTest, WhatIsUnderWayTogetherIsTimedOnce) {
    std::vector<std::byte> bytes(disk_alignment);
    const auto submit = [&](Kind kind) { disk_.submit({kind, -1, 0, {bytes}, [](const Status&) {}}); };
    const auto begin = std::chrono::steady_clock::now();
    const auto passed = [begin] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    submit(Kind::read);
    submit(Kind::read);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_GE(disk_.seconds_reading(), 0.005);  // it goes on while it is asked
    end_all(Status::ok());
    const double read = disk_.seconds_reading();
    EXPECT_GE(read, 0.005);
    EXPECT_LE(read, passed());
    EXPECT_EQ(disk_.seconds_writing(), 0.0);
    submit(Kind::write);
    submit(Kind::sync);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    end_all(error());
    EXPECT_GE(disk_.seconds_writing(), 0.005);
    EXPECT_LE(disk_.seconds_writing() + read, passed());
    EXPECT_EQ(disk_.seconds_reading(), read);
}

TEST_F(DiskMeterTest, AProbeWaitsForNothing) {
    disk_.probe(path_, disk_alignment);
    EXPECT_EQ(disk_.probed_seconds_per_byte(), 0.0);
    size_t bytes = 0;
    for (const DiskWork& work : work_) {
        EXPECT_EQ(work.kind, Kind::read);
        EXPECT_EQ(work.offset, disk_alignment + bytes);
        bytes += bytes_of(work.memory);
    }
    EXPECT_EQ(bytes, DiskMeter::probe_bytes);
    end_all(Status::ok());
    EXPECT_GT(disk_.probed_seconds_per_byte(), 0.0);
}

TEST_F(DiskMeterTest, AProbeThatFailsMeasuresNothing) {
    disk_.probe(folder_.path() + "/none", 0);
    EXPECT_TRUE(work_.empty());
    disk_.probe(path_, 0);
    ASSERT_FALSE(work_.empty());
    work_.back().done(error());
    work_.pop_back();
    end_all(Status::ok());
    EXPECT_EQ(disk_.probed_seconds_per_byte(), 0.0);
}

TEST_F(DiskMeterTest, AProbeReadsAFile) {
    DiskMeter disk(DiskQueue::open({}).value());
    disk.probe(path_, disk_alignment);
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (disk.probed_seconds_per_byte() == 0.0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    EXPECT_GT(disk.probed_seconds_per_byte(), 0.0);
}

}  // namespace
}  // namespace rondo
