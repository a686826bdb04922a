#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <sstream>

#include "actors/kept_conversations.hpp"
#include "tests/memory/store/child_process.hpp"
#include "tests/memory/store/disk_faults.hpp"
#include "tests/memory/store/fault_amount.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

/// Processes that keep conversations and their KV are killed at every call that changes the disk. Whoever removes the
/// conversations afterwards removes all of their KV.
namespace rondo {
namespace {

using testing::ChildProcess;
using testing::DiskFaults;

class ConversationsKillTest : public testing::StoreTest {
protected:
    ConversationsKillTest() { options_.path = memory_.path() + "/kv"; }
    ~ConversationsKillTest() override {
        kept_.reset();
        close();
    }
    static ConversationKey key(uint64_t number, uint64_t cuts = 0) {
        return {{"t", "c" + std::to_string(number)}, number, cuts};
    }
    /// As a server does at a start.
    std::vector<ConversationHead> start() {
        kept_.reset();
        open();
        kept_.emplace(*store_);
        auto heads = kept_->heads();
        EXPECT_TRUE(heads);
        return heads ? std::move(*heads) : std::vector<ConversationHead>();
    }
    void keep(const ConversationKey& key, std::optional<int64_t> tokens_left = {},
              std::optional<ConversationName> fork_of = {}, std::vector<int32_t> ids = {}) {
        ConversationHead head;
        head.name = key.name;
        head.number = key.number;
        const std::vector<std::byte> body(200, std::byte{7});
        ASSERT_TRUE(kept_->keep({key, write_head(head), body, std::move(fork_of), tokens_left, std::move(ids)}));
        ASSERT_TRUE(kept_->commit());
    }
    void remove(const ConversationKey& key) {
        ASSERT_TRUE(kept_->remove(key));
        ASSERT_TRUE(kept_->clear_removed());
    }
    /// All of them are found together, and then the store hears whose they are.
    void store(const ConversationKey& key, const std::vector<Round>& rounds) {
        for (const Round& one : rounds) {
            ASSERT_EQ(write(one), KvStore::Refusal::none);
            ASSERT_TRUE(kept_->tie(key, name_of(one)));
        }
        ASSERT_TRUE(kept_->commit());
    }
    /// Conversations begin, go on, are forked, have rounds taken back, and go.
    void work() {
        const Round first = round("t", nullptr, 0, 32), second = round("t", &first, 100, 32),
                    third = round("t", &second, 200, 32), other = round("t", nullptr, 5000, 32);
        keep(key(1));
        store(key(1), {first, second});
        std::vector<int32_t> path = first.ids;
        path.insert(path.end(), second.ids.begin(), second.ids.end());
        keep(key(2), {}, key(1).name, path);
        store(key(1), {third});
        keep(key(1, 1), 32);
        store(key(3), {other});  // before it is kept
        keep(key(3));
        remove(key(2));
        ASSERT_TRUE(kept_->remove(key(3)));
        ASSERT_TRUE(kept_->remove(key(1, 1)));
        keep({key(1).name, 4, 0});  // another one, before the disk has heard of that
        ASSERT_TRUE(kept_->clear_removed());
        ASSERT_TRUE(kept_->forget_removed());
    }
    std::string task(DiskFaults::Kind kind, int64_t at, bool in_middle) const {
        std::ostringstream out;
        out << options_.path << ' ' << static_cast<int>(kind) << ' ' << at << ' ' << in_middle;
        return out.str();
    }

    testing::Folder memory_{testing::in_memory()};
    std::optional<KeptConversations> kept_;
};

TEST_F(ConversationsKillTest, DISABLED_Child) {
    if (ChildProcess::task() == nullptr) GTEST_SKIP() << "a child of other tests";
    std::istringstream in(ChildProcess::task());
    DiskFaults::Plan plan;
    int kind = 0;
    in >> options_.path >> kind >> plan.from >> plan.in_middle;
    plan.folder = options_.path;
    plan.kind = static_cast<DiskFaults::Kind>(kind);
    plan.seed = static_cast<uint64_t>(plan.from);
    queue_ = DiskQueue::open({8, DiskQueue::Way::threads}).value();  // what io_uring does is no boundary
    start();
    ASSERT_TRUE(store_);
    DiskFaults::begin(plan);
    work();
    DiskFaults::end();
}

/// Whoever waits for all to be on the disk must hear of it, also when the disk has gone on since.
TEST_F(ConversationsKillTest, WhatAFullDiskRefusedIsNotWrittenUntilItIsKeptAgain) {
    start();
    const auto change = [&](uint64_t number) {
        ConversationHead head;
        head.name = key(number).name;
        head.number = number;
        return kept_->keep({key(number), write_head(head), std::vector<std::byte>(200, std::byte{7})});
    };
    const auto refuse = [&](const std::function<Status()>& work) {
        DiskFaults::begin({.folder = options_.path, .kind = DiskFaults::Kind::no_space, .from = 1, .count = 1 << 20});
        const Status refused = work();
        DiskFaults::end();
        EXPECT_FALSE(refused);
    };
    keep(key(1));
    keep(key(2));
    EXPECT_TRUE(kept_->all_written());
    for (const uint64_t number : {1, 2}) {
        ASSERT_TRUE(change(number));
        refuse([&] { return kept_->commit(); });
    }
    EXPECT_FALSE(kept_->all_written());
    EXPECT_TRUE(kept_->commit()) << "there is nothing to write";
    EXPECT_FALSE(kept_->all_written());
    keep(key(1));
    EXPECT_FALSE(kept_->all_written()) << "the other is not";
    ASSERT_TRUE(change(2));
    EXPECT_TRUE(kept_->remove(key(2)));
    EXPECT_TRUE(kept_->clear_removed());
    EXPECT_TRUE(kept_->all_written());
}

/// Else the next start would take it for a record that nobody has.
TEST_F(ConversationsKillTest, AListThatAFullDiskRefusedIsWrittenNext) {
    start();
    keep(key(1));
    const Round first = round("t", nullptr, 0, 32);
    ASSERT_EQ(write(first), KvStore::Refusal::none);
    ASSERT_TRUE(kept_->tie(key(1), name_of(first)));
    DiskFaults::begin({.folder = options_.path, .kind = DiskFaults::Kind::no_space, .from = 1, .count = 1 << 20});
    EXPECT_FALSE(kept_->commit());
    DiskFaults::end();
    EXPECT_TRUE(kept_->commit());
    EXPECT_EQ(start().size(), 1U);
    EXPECT_NE(store_->index().find(name_of(first)), nullptr);
}

/// Ten thousand that leave by age must not wait for the disk ten thousand times.
TEST_F(ConversationsKillTest, ThoseThatLeaveTogetherWaitForTheDiskOnce) {
    constexpr uint64_t count = 300;
    queue_ = DiskQueue::open({8, DiskQueue::Way::threads}).value();
    start();
    Round all[] = {round("t", nullptr, 0, 32), round("t", nullptr, 1000, 32), round("t", nullptr, 2000, 32)};
    for (uint64_t number = 1; number <= count; ++number) {
        ConversationHead head;
        head.name = key(number).name;
        head.number = number;
        ASSERT_TRUE(kept_->keep({key(number), write_head(head), std::vector<std::byte>(20, std::byte{7})}));
        if (number <= std::size(all)) store(key(number), {all[number - 1]});
    }
    ASSERT_TRUE(kept_->commit());
    DiskFaults::begin({.folder = options_.path});
    for (uint64_t number = 1; number <= count; ++number) ASSERT_TRUE(kept_->remove(key(number)));
    ASSERT_TRUE(kept_->clear_removed());
    const std::vector<std::string> met = DiskFaults::end();
    EXPECT_LE(std::ranges::count(met, "fdatasync .log"), 3);
    EXPECT_GE(std::ranges::count(met, "fdatasync .log"), 1);
    EXPECT_EQ(store_->index().count(), 0U);
    EXPECT_TRUE(start().empty());
    EXPECT_EQ(store_->index().count(), 0U);
}

class ConversationsKilledAtBoundaries : public ConversationsKillTest,
                                        public ::testing::WithParamInterface<DiskFaults::Kind> {};

INSTANTIATE_TEST_SUITE_P(Disk, ConversationsKilledAtBoundaries,
                         ::testing::Values(DiskFaults::Kind::kill, DiskFaults::Kind::kill_and_forget),
                         [](const auto& of) { return of.param == DiskFaults::Kind::kill ? "keeps" : "forgets"; });

TEST_P(ConversationsKilledAtBoundaries, NoRecordOutlivesItsConversation) {
    int64_t kills = 0, left_to_remove = 0;
    for (const bool in_middle : {false, true}) {
        for (int64_t at = 1 + in_middle; !HasFailure(); at += testing::fault_amount(3, 1)) {
            const std::string what = task(GetParam(), at, in_middle);
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, what);
            kept_.reset();
            close();
            std::filesystem::remove_all(options_.path);
            ChildProcess child("ConversationsKillTest.DISABLED_Child", what, folder_.path());
            const std::string output = child.output();
            const int status = child.wait();
            const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            ASSERT_TRUE(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << output;
            const std::vector<ConversationHead> heads = start();
            ASSERT_TRUE(store_);
            left_to_remove += std::ssize(heads);
            for (const ConversationHead& head : heads) EXPECT_TRUE(kept_->remove({head.name, head.number}));
            EXPECT_TRUE(kept_->clear_removed());
            EXPECT_EQ(store_->index().count(), 0U);
            EXPECT_TRUE(start().empty());
            EXPECT_EQ(store_->index().count(), 0U) << "after another start";
            EXPECT_TRUE(Shelf(store_->manifest(), store_->keys()).unlisted().value().empty()) << "no mark stays";
            if (!killed) break;  // it has fewer boundaries
            ++kills;
        }
    }
    std::cout << kills << " kills, " << left_to_remove << " conversations removed\n";
    EXPECT_GE(kills, 20);
    EXPECT_GT(left_to_remove, 0);
}

}  // namespace
}  // namespace rondo
