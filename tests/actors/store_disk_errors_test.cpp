// An engine whose disk becomes full, cannot be read, or hangs: answers are the undisturbed ones, and the store goes on.

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/checked.hpp"
#include "tests/actors/held_disk.hpp"
#include "tests/memory/store/bad_sectors.hpp"

namespace rondo {
namespace {

using testing::BadSectors;
using testing::continue_ids;
using testing::Heard;
using testing::HeldDisk;
using testing::HeldDiskTest;
using testing::must;
using testing::settings_of;
using Work = DiskWork::Kind;

/// A disk that refuses a kind of work. Who submits also says what is refused: the test's thread.
class RefusingDisk : public DiskQueue {
public:
    /// So many more pieces are done; those behind them end with this error.
    void refuse(Work kind, int error, int done = 0) { refusal_ = {kind, error, done}; }
    void serve() { refusal_.reset(); }

    void submit(DiskWork work) override {
        if (!refusal_ || refusal_->kind != work.kind) return disk_->submit(std::move(work));
        if (refusal_->left > 0) {
            --refusal_->left;
            return disk_->submit(std::move(work));
        }
        ++refused;
        // The queue has something to do, and moves nothing.
        work.kind = Work::sync;
        work.memory.clear();
        work.done = [error = refusal_->error, done = std::move(work.done)](const Status&) {
            done(disk_error(error, "refused"));
        };
        disk_->submit(std::move(work));
    }
    Way way() const override { return disk_->way(); }

    int refused = 0;

private:
    struct Refusal {
        Work kind = Work::read;
        int error = 0, left = 0;
    };
    const std::unique_ptr<DiskQueue> disk_ = must(DiskQueue::open({}));
    std::optional<Refusal> refusal_;
};

/// Dialogues of short answers, in f32: a history that is computed again in other pieces is answered as one that was
/// kept.
class StoreDiskErrorsTest : public HeldDiskTest {
protected:
    static constexpr int64_t answer_tokens = 8, kept_of_first = 107;

    void start() {
        HeldDiskTest::start(testing::demo_in_f32(85));
        ASSERT_TRUE(figures().serves);
    }
    /// On a disk that may refuse.
    template <class Disk>
    Disk* start_on(const std::function<std::unique_ptr<Disk>()>& make) {
        Disk* made = nullptr;
        stage_.reset();
        stage_.emplace(settings_of(overrides(testing::demo_in_f32(85))), Engine::Options{}, [&] {
            auto disk = make();
            made = disk.get();
            return disk;
        });
        EXPECT_TRUE(figures().serves);
        return made;
    }
    RefusingDisk* start_refusing() {
        return start_on<RefusingDisk>([] { return std::make_unique<RefusingDisk>(); });
    }
    /// Dialogues that begin with these ids, one behind the other; and how each prompt is answered without a store.
    void talk(int turns, const std::vector<int32_t>& first_ids = {10}) {
        stage_.reset();
        stage_.emplace(settings_of(testing::demo_in_f32(85, {"devices.cpu.threads=1"})));
        for (const int32_t first : first_ids) {
            std::vector<int32_t> prompt = some_ids(100);
            prompt[0] = first;
            for (int i = 0; i < turns; ++i) {
                prompts_.push_back(prompt);
                answers_.push_back(turn(ask(prompts_.size() - 1)).ids);
                prompt = joined(joined(prompt, answers_.back()), {200, 201});
            }
        }
        stage_.reset();
    }
    Ask ask(size_t prompt) const { return continue_ids(prompts_[prompt], answer_tokens); }
    TurnUsage say(size_t prompt) {
        const Heard heard = turn(ask(prompt));
        EXPECT_EQ(heard.ids, answers_[prompt]);
        return heard.ends[0].usage;
    }
    /// The same, while no time passes and nobody takes up what the disk has done: who waits for it is not answered.
    TurnUsage say_at_once(size_t prompt) {
        Heard heard;
        const TurnId id = stage_->engine().ask(ask(prompt), heard.callbacks());
        stage_->run();
        EXPECT_EQ(heard.ends.size(), 1U) << "it waits";
        EXPECT_EQ(heard.ids, answers_[prompt]);
        if (!heard.ends.empty()) return heard.ends[0].usage;
        stage_->engine().cancel(id);
        stage_->run();
        return {};
    }
    int64_t refused_by_disk() { return figures().refused[static_cast<size_t>(StoreRefusal::disk)]; }
    size_t layers() { return static_cast<size_t>(pool().shape().layers); }

    std::vector<std::vector<int32_t>> prompts_, answers_;
};

/// What is written of a record before the disk is full: nothing, some of its layers, or all of them and no header.
class FullDiskOfEngineTest : public StoreDiskErrorsTest, public ::testing::WithParamInterface<const char*> {
protected:
    int pieces_written() {
        const std::string what = GetParam();
        return what == "nothing" ? 0 : what == "some_layers" ? 3 : static_cast<int>(layers());
    }
};

INSTANTIATE_TEST_SUITE_P(Written, FullDiskOfEngineTest, ::testing::Values("nothing", "some_layers", "all_layers"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(FullDiskOfEngineTest, CostsComputingAndNothingElse) {
    talk(5);
    RefusingDisk* disk = start_refusing();
    ASSERT_GT(layers(), 3U);
    say(0);
    wait_until_written();
    ASSERT_EQ(figures().written, 1);
    disk->refuse(Work::write, ENOSPC, pieces_written());
    EXPECT_EQ(say(1).cached_tokens, kept_of_first);
    wait_until_written();
    EXPECT_GT(disk->refused, 0);
    EXPECT_EQ(refused_by_disk(), 1);
    EXPECT_EQ(figures().written, 1);
    EXPECT_EQ(figures().records, 1U);

    disk = start_refusing();
    disk->refuse(Work::write, ENOSPC);
    const TurnUsage third = say(2);
    EXPECT_EQ(third.restored_tokens, kept_of_first) << "of the second turn nothing is found";
    EXPECT_EQ(third.recomputed_tokens, third.prompt_tokens - kept_of_first);
    wait_until_written();
    EXPECT_EQ(refused_by_disk(), 1);
    EXPECT_EQ(figures().written, 0);

    disk->serve();
    EXPECT_GT(say(3).cached_tokens, third.prompt_tokens);
    wait_until_written();
    EXPECT_EQ(figures().written, 2) << "what was refused is written, too";
    EXPECT_EQ(refused_by_disk(), 1);
    start();
    EXPECT_EQ(say(4).restored_tokens, std::ssize(prompts_[3]) + answer_tokens - 1);
}

/// Its header, or a layer that comes when a chunk may have begun.
TEST_F(StoreDiskErrorsTest, WhatADiskCannotReadIsComputedAndNotLost) {
    talk(2);
    start();
    say(0);
    wait_until_written();
    for (const int done : {0, 4}) {
        RefusingDisk* const disk = start_refusing();
        disk->refuse(Work::read, EIO, done);
        const TurnUsage usage = say(1);
        EXPECT_GT(disk->refused, 0);
        EXPECT_EQ(usage.restored_tokens, 0);
        EXPECT_EQ(usage.recomputed_tokens, usage.prompt_tokens);
        EXPECT_EQ(figures().tokens_failed, kept_of_first);
        EXPECT_EQ(figures().tokens_restored, 0);
        EXPECT_EQ(figures().damaged, 0) << "the disk may come back";
    }
    start();
    EXPECT_EQ(say(1).restored_tokens, kept_of_first);
}

TEST_F(StoreDiskErrorsTest, WhatLiesInABadSectorIsComputedAndWrittenElsewhere) {
    talk(2);
    start();
    say(0);
    wait_until_written();
    stage_.reset();
    const std::string spoilt = Segments::name_of(1);
    const uint64_t byte = std::filesystem::file_size(folder_.path() + "/kv/" + spoilt) / 2;
    const auto start_on_bad_sectors = [&] {
        BadSectors* const disk =
            start_on<BadSectors>([] { return std::make_unique<BadSectors>(must(DiskQueue::open({}))); });
        disk->bad = [=](const std::string& file, uint64_t begin, uint64_t end) {
            return file == spoilt && begin <= byte && byte < end;
        };
        return disk;
    };
    const BadSectors* disk = start_on_bad_sectors();
    EXPECT_EQ(say(1).restored_tokens, 0);
    EXPECT_GT(disk->refused, 0);
    wait_until_written();
    EXPECT_EQ(figures().damaged, 1);
    EXPECT_EQ(figures().tokens_failed, kept_of_first);
    EXPECT_GT(figures().written, 0);

    disk = start_on_bad_sectors();
    EXPECT_GE(say(1).restored_tokens, 64);
    EXPECT_EQ(disk->refused, 0);
    EXPECT_EQ(figures().damaged, 0);
}

TEST_F(StoreDiskErrorsTest, NoAnswerWaitsForADiskThatHangsInWrites) {
    const std::vector<int32_t> dialogues{10, 300, 301, 302, 303, 304};
    talk(2, dialogues);
    start();
    disk_.hold([](const DiskWork& work) { return work.kind == Work::write; });
    const auto share = static_cast<int64_t>(pool().blocks_total(LayerGroup::upper)) / 4;
    const int64_t blocks = ceil_div<int64_t>(kept_of_first, kv_block_tokens);  // of a turn
    ASSERT_LT(share / blocks + 1, std::ssize(dialogues));
    for (size_t i = 0; i < dialogues.size(); ++i) {
        say_at_once(2 * i);
        run_until([this] { return disk_.held() == layers(); });
        EXPECT_LE(figures().queue_sequences * blocks, share);
    }
    EXPECT_EQ(figures().queue_sequences, share / blocks) << "the disk has one more, and the others wait in the cache";
    EXPECT_EQ(figures().written, 0);
    disk_.let_go();
    run_until([&] { return figures().written == std::ssize(dialogues); });
    EXPECT_EQ(refused_by_disk(), 0);
    start();
    for (size_t i = 0; i < dialogues.size(); ++i) {
        const Heard again = turn_in_no_time(ask(2 * i + 1));
        EXPECT_EQ(again.ids, answers_[2 * i + 1]);
        EXPECT_EQ(again.ends[0].usage.restored_tokens, kept_of_first);
    }
}

/// How many pieces of a record are read before the disk hangs: none, or its header and some layers.
class HangingReadsTest : public StoreDiskErrorsTest, public ::testing::WithParamInterface<int> {
protected:
    /// A timer may set another one.
    void pass_slowly(int seconds) {
        for (int i = 0; i < 10 * seconds; ++i) stage_->pass(std::chrono::milliseconds(100));
    }
    bool no_turn_holds_blocks() {
        const auto cached = static_cast<size_t>(stage_->inside().load().blocks_cached.load());
        return pool().blocks_free(LayerGroup::upper) + cached == free_;
    }

    size_t free_ = 0;  // blocks, when nothing has begun
};

INSTANTIATE_TEST_SUITE_P(Pieces, HangingReadsTest, ::testing::Values(0, 4));

/// Who reads is put back after a while, and computed in other blocks, for the disk may still write into the first ones.
/// So is who waits for the same.
TEST_P(HangingReadsTest, HoldUpWhoWantsThemForAWhile) {
    talk(2, {10, 300});
    start();
    for (const size_t prompt : {0, 2}) say(prompt);
    wait_until_written();
    start();
    free_ = pool().blocks_free(LayerGroup::upper);
    disk_.hold([left = GetParam()](const DiskWork& work) mutable { return HeldDisk::reads(work) && left-- <= 0; });
    Heard waits, waits_too, leaves;
    const uint64_t pieces_before = stage_->inside().progress().done;
    stage_->engine().ask(ask(1), waits.callbacks());
    const bool chunk_begins = GetParam() > 1;
    run_until([&] { return disk_.held() > 0 && (!chunk_begins || stage_->inside().progress().done > pieces_before); });
    stage_->engine().ask(ask(1), waits_too.callbacks());
    const TurnId left = stage_->engine().ask(ask(1), leaves.callbacks());
    stage_->run();
    EXPECT_EQ(stage_->inside().load().turns, 3U);
    stage_->engine().cancel(left);
    stage_->run();
    EXPECT_EQ(leaves.ends.size(), 1U);
    EXPECT_EQ(stage_->inside().load().turns, 2U) << "who is not wanted any more waits for nobody";

    Heard small;
    stage_->engine().ask(continue_ids({1, 2, 3, 4, 5}, 4), small.callbacks());
    stage_->run();
    EXPECT_EQ(small.ids.size(), 4U);
    pass_slowly(4);
    EXPECT_TRUE(waits.ids.empty() && waits_too.ids.empty());
    pass_slowly(2);
    for (const Heard* const heard : {&waits, &waits_too}) {
        ASSERT_EQ(heard->ends.size(), 1U);
        EXPECT_EQ(heard->ids, answers_[1]);
        EXPECT_EQ(heard->ends[0].usage.restored_tokens, 0);
        EXPECT_EQ(heard->ends[0].usage.cached_tokens + heard->ends[0].usage.recomputed_tokens, std::ssize(prompts_[1]));
    }
    EXPECT_EQ(waits.ends[0].timings.preemptions, 1);
    EXPECT_EQ(stage_->inside().load().turns, 0U);
    EXPECT_EQ(say_at_once(3).restored_tokens, 0) << "nobody queues for a disk that hangs";

    disk_.let_go();
    run_until([this] { return no_turn_holds_blocks(); });
    EXPECT_EQ(figures().tokens_failed, kept_of_first);
    EXPECT_EQ(figures().tokens_restored, 0);
    wait_until_written();
    start();
    EXPECT_EQ(say(1).restored_tokens, kept_of_first);
}

}  // namespace
}  // namespace rondo
