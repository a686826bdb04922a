#include "memory/store/careful_read.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/memory/store/store_fixture.hpp"

namespace rondo {
namespace {

/// A store's thread and a disk that do what the test says.
class CarefulReadTest : public ::testing::Test {
protected:
    class AskedDisk : public DiskQueue {
    public:
        void submit(DiskWork work) override { asked.push_back(std::move(work)); }
        Way way() const override { return Way::threads; }
        std::deque<DiskWork> asked;
    };

    CarefulReadTest() {
        segments_ = Segments::open(store_folder_, disk_, {}).value();
        place_ = segments_->append(uint64_t{4} << 20).value();
    }
    ~CarefulReadTest() override {
        while (!disk_.asked.empty()) answer(Status::ok());  // the segments wait for it
    }
    /// The disk has done what it was asked first.
    void answer(const Status& end) {
        DiskWork work = std::move(disk_.asked.front());
        disk_.asked.pop_front();
        work.done(end);
    }
    void run_tasks() {
        for (const auto& task : std::exchange(tasks_, {})) task();
    }
    /// So many bytes from that one on.
    void read(uint64_t at, size_t bytes) {
        bytes_ = AlignedBytes(bytes);
        read_carefully(*segments_, *thread_, place_, at, {bytes_.span()}, [this](Status end) { come_.push_back(end); });
    }
    /// Of the piece that the disk was asked for last.
    uint64_t offset() const { return disk_.asked.back().offset; }
    static Error refused(ErrorCode code) { return make_error(code, "no"); }

    testing::Folder folder_;
    StoreFolder store_folder_ = StoreFolder::open(folder_.path() + "/kv").value();
    AskedDisk disk_;
    std::unique_ptr<Segments> segments_;
    RecordPlace place_;
    AlignedBytes bytes_;
    std::deque<std::function<void()>> tasks_;
    std::optional<StoreThread> thread_{[this](std::function<void()> task) { tasks_.push_back(std::move(task)); }};
    std::vector<Status> come_;  // what was told
};

TEST_F(CarefulReadTest, PiecesAreAskedForSideBySideAndToldOfOnce) {
    read(disk_alignment, 2 * read_piece_bytes + disk_alignment);
    ASSERT_EQ(disk_.asked.size(), 3U);
    for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(disk_.asked[i].offset, place_.offset + disk_alignment + i * read_piece_bytes);
        ASSERT_EQ(disk_.asked[i].memory.size(), 1U);
        EXPECT_EQ(disk_.asked[i].memory[0].data(), bytes_.data() + i * read_piece_bytes);
        EXPECT_EQ(disk_.asked[i].memory[0].size(), i < 2 ? read_piece_bytes : disk_alignment);
    }
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(come_.empty());
        answer(Status::ok());
    }
    ASSERT_EQ(come_.size(), 1U);
    EXPECT_TRUE(come_[0]);
}

TEST_F(CarefulReadTest, AnErrorThatPassesIsNotTold) {
    read(0, disk_alignment);
    answer(refused(ErrorCode::io));
    EXPECT_TRUE(disk_.asked.empty()) << "segments belong to the store's thread";
    run_tasks();
    ASSERT_EQ(disk_.asked.size(), 1U);
    EXPECT_EQ(offset(), place_.offset);
    EXPECT_TRUE(come_.empty());
    answer(Status::ok());
    ASSERT_EQ(come_.size(), 1U);
    EXPECT_TRUE(come_[0]);
}

TEST_F(CarefulReadTest, ASecondErrorIsDamageWhereTheDiskReadsTheFile) {
    for (const bool reads_the_file : {true, false}) {
        come_.clear();
        read(disk_alignment, disk_alignment);
        for (int i = 0; i < 2; ++i) {
            EXPECT_EQ(offset(), place_.offset + disk_alignment);
            answer(refused(ErrorCode::io));
            EXPECT_TRUE(come_.empty());
            run_tasks();
        }
        ASSERT_EQ(disk_.asked.size(), 1U);
        EXPECT_EQ(offset(), 0U) << "the file's first bytes";
        answer(reads_the_file ? Status::ok() : Status(refused(ErrorCode::io)));
        ASSERT_EQ(come_.size(), 1U);
        EXPECT_EQ(come_[0].error().code, reads_the_file ? ErrorCode::corrupt : ErrorCode::io);
        EXPECT_TRUE(tasks_.empty());
    }
}

/// As no memory in the kernel.
TEST_F(CarefulReadTest, AnErrorThatIsNotTheDisksIsToldAtOnce) {
    read(0, disk_alignment);
    answer(refused(ErrorCode::out_of_memory));
    ASSERT_EQ(come_.size(), 1U);
    EXPECT_EQ(come_[0].error().code, ErrorCode::out_of_memory);
    EXPECT_TRUE(tasks_.empty());
}

TEST_F(CarefulReadTest, TheFirstErrorOfThePiecesIsTold) {
    read(0, 3 * read_piece_bytes);
    answer(Status::ok());
    answer(refused(ErrorCode::out_of_memory));
    EXPECT_TRUE(come_.empty());
    answer(refused(ErrorCode::cancelled));
    ASSERT_EQ(come_.size(), 1U);
    EXPECT_EQ(come_[0].error().code, ErrorCode::out_of_memory);
}

TEST_F(CarefulReadTest, NoBytesAreReadAtOnce) {
    read(0, 0);
    EXPECT_TRUE(disk_.asked.empty());
    ASSERT_EQ(come_.size(), 1U);
    EXPECT_TRUE(come_[0]);
}

TEST_F(CarefulReadTest, NothingIsAskedForWhoHasGone) {
    read(0, disk_alignment);
    answer(refused(ErrorCode::io));
    thread_.reset();
    run_tasks();
    EXPECT_TRUE(disk_.asked.empty());
    EXPECT_TRUE(come_.empty());
}

}  // namespace
}  // namespace rondo
