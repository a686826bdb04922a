// A history of which the first part is computed while a slow disk brings the rest.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/actors/store_actor_fixture.hpp"

namespace rondo {
namespace {

using testing::continue_ids;
using testing::Heard;
using testing::settings_of;
using testing::StoreActorTest;

/// Reads so many seconds a byte; whoever asks it waits.
class SlowDisk final : public DiskQueue {
public:
    explicit SlowDisk(double seconds_per_byte) : seconds_per_byte_(seconds_per_byte) {}
    void submit(DiskWork work) override {
        size_t bytes = 0;
        for (const auto& part : work.memory) bytes += part.size();
        if (work.kind == DiskWork::Kind::read)
            std::this_thread::sleep_for(std::chrono::duration<double>(seconds_per_byte_ * static_cast<double>(bytes)));
        disk_->submit(std::move(work));
    }
    Way way() const override { return disk_->way(); }

private:
    const double seconds_per_byte_;
    const std::unique_ptr<DiskQueue> disk_ = testing::must(DiskQueue::open({}));
};

class StoreAheadTest : public StoreActorTest {
protected:
    static constexpr int history = 1900;  // tokens: two records

    void start_with(double seconds_per_byte) {
        stage_.reset();
        stage_.emplace(settings_of(overrides(testing::demo_in_f32(170))), Engine::Options{},
                       [seconds_per_byte] { return std::make_unique<SlowDisk>(seconds_per_byte); });
        std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the probe ends meanwhile
    }
    /// Writes the history. Returns the seconds that computing it took.
    double write_history() {
        start_with(0.0);
        const auto begin = std::chrono::steady_clock::now();
        turn(continue_ids(some_ids(history), 1));
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        wait_until_written();
        EXPECT_EQ(figures().written, 2);
        return seconds;
    }
    /// What is answered to the history and a few tokens more.
    Heard go_on() { return turn(continue_ids(joined(some_ids(history), {3, 5, 7}), 8)); }
};

TEST_F(StoreAheadTest, ADiskAsSlowAsTheComputerReadsHalf) {
    const double seconds = write_history();
    const auto bytes = static_cast<double>(figures().bytes_written);
    const Heard undisturbed = go_on();
    EXPECT_EQ(undisturbed.ends[0].usage.restored_tokens, 0);
    wait_until_written();
    bool has_split = false;
    for (int attempt = 0; attempt < 5 && !has_split; ++attempt) {  // other work on the machine may change the rates
        start_with(seconds / bytes);
        const Heard restored = go_on();
        EXPECT_EQ(restored.ids, undisturbed.ids);
        const auto& usage = restored.ends[0].usage;
        EXPECT_EQ(usage.cached_tokens + usage.restored_tokens + usage.recomputed_tokens, history + 3);
        has_split = figures().tokens_ahead > 0;
        if (!has_split) continue;
        EXPECT_EQ(figures().tokens_ahead, 1024);
        EXPECT_EQ(usage.restored_tokens, history - 1024);
        wait_until_written();
        EXPECT_EQ(figures().written, 0) << "both parts are there already";
        const Heard again = go_on();
        EXPECT_EQ(again.ids, undisturbed.ids);
        EXPECT_GE(again.ends[0].usage.cached_tokens, history);
    }
    EXPECT_TRUE(has_split);
}

/// Of a damaged second part nothing but that is lost.
TEST_F(StoreAheadTest, WhatIsDamagedIsComputedToo) {
    bool has_split = false;
    for (int attempt = 0; attempt < 5 && !has_split; ++attempt) {
        stage_.reset();
        std::filesystem::remove_all(folder_.path() + "/kv");
        const double seconds = write_history();
        const auto bytes = static_cast<double>(figures().bytes_written);
        const Heard undisturbed = go_on();
        stage_.reset();
        for (const auto& entry : std::filesystem::directory_iterator(folder_.path() + "/kv"))
            if (entry.is_regular_file() && entry.file_size() > 100'000)
                testing::flip_bit(entry.path(), entry.file_size() * 8 / 10);
        start_with(seconds / bytes);
        const Heard restored = go_on();
        EXPECT_EQ(restored.ids, undisturbed.ids);
        has_split = figures().tokens_ahead > 0;
        if (has_split) {
            EXPECT_EQ(figures().tokens_failed, history - 1024);
        }
        EXPECT_EQ(go_on().ids, undisturbed.ids);
    }
    EXPECT_TRUE(has_split);
}

}  // namespace
}  // namespace rondo
