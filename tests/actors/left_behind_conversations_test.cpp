// What is left of conversations whose entries in the manifest are lost, and of records that nobody lists.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "actors/kept_conversations.hpp"
#include "memory/store/manifest_keys.hpp"
#include "tests/actors/no_more_bytes.hpp"
#include "tests/flip_bit.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

namespace rondo {
namespace {

namespace fs = std::filesystem;

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::NoMoreBytes;

class LeftBehindConversationsTest : public testing::StoreTest {
protected:
    LeftBehindConversationsTest() {
        options_.path = memory_.path() + "/kv";
        options_.bytes_max = uint64_t{256} << 20;
        options_.kind.layers = 1;
        start();
    }
    ~LeftBehindConversationsTest() override { stop(); }
    void stop() {
        kept_.reset();
        close();
    }
    void start() {
        stop();
        open();
        kept_.emplace(*store_);
        const auto heads = kept_->heads();
        ASSERT_TRUE(heads) << heads.error().message;
        listed_.clear();
        for (const ConversationHead& head : *heads) listed_.insert(head.number);
    }
    /// Long, so that the heads of some of them fill a block.
    static ConversationKey key(uint64_t number) {
        return {{"t", "c" + std::to_string(number) + std::string(200, 'x')}, number, 0};
    }
    /// Bytes that no compression makes shorter.
    static std::string text_of(uint64_t number) {
        std::mt19937_64 random(number);
        std::string text(100, ' ');
        for (char& letter : text) letter = static_cast<char>(random());
        return text;
    }
    void keep(uint64_t number) {
        ConversationHead head;
        head.name = key(number).name;
        head.number = number;
        const std::string text = text_of(number);
        const auto body = std::as_bytes(std::span(text));
        ASSERT_TRUE(kept_->keep({key(number), write_head(head), {body.begin(), body.end()}, {}, {}}));
        ASSERT_TRUE(kept_->commit());
    }
    static Round round_of(uint64_t number) { return round("t", nullptr, static_cast<int32_t>(1000 * number), 16); }
    void write_for(uint64_t number) {
        ASSERT_EQ(write(round_of(number)), KvStore::Refusal::none);
        ASSERT_TRUE(kept_->tie(key(number), name_of(round_of(number))));
    }
    StoreName shelf_name(uint64_t number) const {
        return Shelf(store_->manifest(), store_->keys()).name("t", key(number).name.id);
    }
    bool is_stored(uint64_t number) const { return store_->index().find(name_of(round_of(number))) != nullptr; }
    std::vector<fs::path> tables() const {
        std::vector<fs::path> found;
        for (const auto& entry : fs::directory_iterator(options_.path + "/manifest"))
            if (entry.path().extension() == ".sst") found.push_back(entry.path());
        return found;
    }
    void change(const std::function<void(Manifest::Changes&)>& how) {
        Manifest::Changes changes;
        how(changes);
        ASSERT_TRUE(store_->manifest().commit(std::move(changes)));
    }

    testing::Folder memory_{testing::in_memory()};
    std::optional<KeptConversations> kept_;
    std::set<uint64_t> listed_;  // numbers of the conversations that the last start found
};

TEST_F(LeftBehindConversationsTest, OfConversationsWhoseHeadsAreDamagedNothingStays) {
    constexpr uint64_t conversations = 50;
    for (uint64_t i = 0; i < conversations; ++i) {
        keep(i);
        write_for(i);
        ASSERT_TRUE(kept_->commit());
    }
    ASSERT_TRUE(kept_->forget_removed());
    stop();
    for (uint64_t i = 0; i < conversations; ++i) EXPECT_TRUE(any_file_has(text_of(i))) << i;
    ASSERT_EQ(tables().size(), 1U);
    testing::flip_bit(tables().front(), 60);  // in the first block: keys of heads come first
    start();
    ASSERT_TRUE(store_->repaired());
    EXPECT_GT(listed_.size(), 0U);
    EXPECT_LT(listed_.size(), conversations);
    EXPECT_THAT(store_->notes(), Contains(HasSubstr("whose heads are lost")));
    EXPECT_EQ(store_->index().count(), listed_.size());
    for (uint64_t i = 0; i < conversations; ++i) EXPECT_EQ(is_stored(i), listed_.contains(i)) << i;
    ASSERT_TRUE(kept_->forget_removed());
    stop();
    for (uint64_t i = 0; i < conversations; ++i) EXPECT_EQ(any_file_has(text_of(i)), listed_.contains(i)) << i;
    start();
    EXPECT_FALSE(store_->repaired());
    EXPECT_TRUE(store_->notes().empty()) << store_->notes().front();
}

TEST_F(LeftBehindConversationsTest, WhatAnotherVersionKeptStays) {
    keep(1);
    write_for(1);
    ASSERT_TRUE(kept_->commit());
    const StoreName name = shelf_name(1);
    Shelf shelf(store_->manifest(), store_->keys());
    const std::vector<std::byte> body = shelf.body(name).value(), head(30, std::byte{99});
    ASSERT_TRUE(shelf.put(name, store_->tenant_name("t"), head, body, shelf.records(name).value()));
    start();
    EXPECT_TRUE(listed_.empty());
    EXPECT_TRUE(store_->notes().empty());
    EXPECT_TRUE(kept_->newer()(key(1).name));
    EXPECT_FALSE(kept_->newer()(key(2).name));
    // Whoever uses its name all the same.
    const ConversationKey again{key(1).name, 7};
    for (const Status& refused : {kept_->keep({again, head, {}, {}, {}}), kept_->remove(again)}) {
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
    }
    ASSERT_TRUE(kept_->tie(again, name_of(round_of(1))));
    ASSERT_TRUE(kept_->commit());
    EXPECT_EQ(kept_->count(), 0U);
    EXPECT_EQ(Shelf(store_->manifest(), store_->keys()).body(name).value(), body);
    EXPECT_TRUE(is_stored(1));
}

TEST_F(LeftBehindConversationsTest, ALostListIsTold) {
    keep(1);
    const StoreName name = shelf_name(1);
    change([&](Manifest::Changes& changes) { changes.remove(store::key_of(store::refers_letter, name)); });
    start();
    EXPECT_EQ(listed_, std::set<uint64_t>{1});
    EXPECT_THAT(store_->notes(), Contains(HasSubstr("whose list of stored KV is lost: 1;")));
}

TEST_F(LeftBehindConversationsTest, ARecordWhoseConversationTheDiskDidNotTakeGoesWithTheNextStart) {
    keep(1);
    write_for(1);
    ASSERT_TRUE(kept_->commit());
    ASSERT_EQ(write(round_of(2)), KvStore::Refusal::none);
    {
        const NoMoreBytes disk;
        ASSERT_TRUE(kept_->tie(key(1), name_of(round_of(2))));
        EXPECT_FALSE(kept_->commit());
    }
    EXPECT_TRUE(is_stored(2));
    start();
    EXPECT_TRUE(is_stored(1));
    EXPECT_FALSE(is_stored(2)) << "nothing on the disk says whose it is";
}

/// What the disk did not take is written with what comes next.
TEST_F(LeftBehindConversationsTest, AListIsWrittenWithTheNextChange) {
    keep(1);
    keep(2);
    ASSERT_EQ(write(round_of(1)), KvStore::Refusal::none);
    {
        const NoMoreBytes disk;
        ASSERT_TRUE(kept_->tie(key(1), name_of(round_of(1))));
        EXPECT_FALSE(kept_->commit());
    }
    keep(2);
    start();
    EXPECT_TRUE(is_stored(1));
    ASSERT_TRUE(kept_->remove(key(1)));
    ASSERT_TRUE(kept_->clear_removed());
    EXPECT_FALSE(is_stored(1));
}

TEST_F(LeftBehindConversationsTest, ARecordThatNobodyOwnsStays) {
    ASSERT_EQ(write(round_of(1)), KvStore::Refusal::none);
    ASSERT_TRUE(kept_->commit());  // nobody has said whose it is
    start();
    EXPECT_TRUE(is_stored(1));
}

/// Bytes that this process has written so far, to any file; 0 where the kernel does not count them.
uint64_t bytes_written() {
    std::ifstream figures("/proc/self/io");
    std::string what;
    uint64_t bytes = 0;
    while (figures >> what >> bytes)
        if (what == "wchar:") return bytes;
    return 0;
}

TEST_F(LeftBehindConversationsTest, AListIsWrittenOnceHoweverManyRecordsCome) {
    constexpr uint64_t records = 5000, together = 100;
    if (bytes_written() == 0) GTEST_SKIP() << "nobody counts what is written";
    keep(0);
    for (uint64_t i = 0; i < records;) {
        std::vector<KvStore::WritingPtr> writings;
        for (const uint64_t end = i + together; i < end; ++i) {
            const RecordHeader header = header_of(round_of(i));
            KvStore::Begun begun = store_->begin(header, 1.0);
            ASSERT_NE(begun.writing, nullptr);
            ASSERT_TRUE(write_layers(begun.writing, header));
            writings.push_back(std::move(begun.writing));
        }
        ASSERT_TRUE(wait([&](auto done) { store_->finish(std::move(writings), std::move(done)); }));
    }
    const uint64_t before = bytes_written();
    for (uint64_t i = 0; i < records; ++i) ASSERT_TRUE(kept_->tie(key(0), name_of(round_of(i))));
    ASSERT_TRUE(kept_->commit());
    EXPECT_LT(bytes_written() - before, uint64_t{1} << 20);
    start();
    ASSERT_TRUE(kept_->remove(key(0)));
    ASSERT_TRUE(kept_->clear_removed());
    EXPECT_EQ(store_->index().count(), 0U);
}

}  // namespace
}  // namespace rondo
