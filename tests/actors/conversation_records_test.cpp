// Which stored records belong to a conversation, when rounds go while others are on their way to the disk.

#include <gtest/gtest.h>

#include "actors/kept_conversations.hpp"
#include "tests/actors/no_more_bytes.hpp"
#include "tests/memory/store/kv_store_fixture.hpp"

namespace rondo {
namespace {

using testing::NoMoreBytes;

class ConversationRecordsTest : public testing::StoreTest {
protected:
    ConversationRecordsTest() {
        open();
        kept_.emplace(*store_);
        keep(key(1));
    }
    static ConversationKey key(uint64_t number, uint64_t cuts = 0) {
        return {{"t", "c" + std::to_string(number)}, number, cuts};
    }
    void keep(const ConversationKey& key, std::optional<int64_t> tokens_left = {}) {
        ASSERT_TRUE(kept_->keep({key, {}, {}, {}, tokens_left}));
        ASSERT_TRUE(kept_->commit());
    }
    /// It begins with these rounds.
    void fork(const ConversationKey& key, const std::vector<const Round*>& rounds, uint64_t of = 1,
              std::vector<std::string> methods = {}) {
        ConversationToKeep begun{key, {}, {}, this->key(of).name, {}, {}, std::move(methods)};
        for (const Round* const round : rounds) begun.ids.insert(begun.ids.end(), round->ids.begin(), round->ids.end());
        ASSERT_TRUE(kept_->keep(begun));
        ASSERT_TRUE(kept_->commit());
    }
    void remove(const ConversationKey& key) {
        ASSERT_TRUE(kept_->remove(key));
        ASSERT_TRUE(kept_->clear_removed());
    }
    /// It was on its way since the conversation had had so many cuts.
    void written(const ConversationKey& key, const Round& round) {
        ASSERT_EQ(write(round), KvStore::Refusal::none);
        ASSERT_TRUE(kept_->tie(key, name_of(round)));
        ASSERT_TRUE(kept_->commit());
    }

    std::optional<KeptConversations> kept_;
    const Round first_ = round("t", nullptr, 0, 32), second_ = round("t", &first_, 100, 32),
                third_ = round("t", &second_, 200, 32), other_ = round("t", &first_, 300, 32);
};

TEST_F(ConversationRecordsTest, ARoundThatWasTakenBackDoesNotStay) {
    written(key(1), first_);
    keep(key(1, 1), 32);
    written(key(1, 0), second_);
    EXPECT_FALSE(is_there(second_)) << "it was on its way when it was taken back";
    written(key(1, 1), other_);
    EXPECT_TRUE(is_there(other_)) << "it was told behind it";
    EXPECT_TRUE(is_there(first_));
}

TEST_F(ConversationRecordsTest, WhatIsRefusedToTheShelfLeavesNoRoundsBehind) {
    written(key(1), first_);
    written(key(1), second_);
    const std::vector<std::byte> head(Shelf::head_bytes_max + 1);
    EXPECT_FALSE(kept_->keep({key(1, 1), head, {}, {}, 32}));
    remove(key(1));
    EXPECT_FALSE(is_there(first_));
    EXPECT_FALSE(is_there(second_)) << "it was taken back before";
}

/// A kill before that leaves a list that names it. A turn from before the cut says that it is stored.
TEST_F(ConversationRecordsTest, WhatIsGivenUpStaysUntilThatIsOnTheDisk) {
    written(key(1), first_);
    written(key(1), second_);
    ASSERT_TRUE(kept_->keep({key(1, 1), {}, {}, {}, 32}));
    ASSERT_TRUE(kept_->tie(key(1, 0), name_of(second_)));
    EXPECT_TRUE(is_there(second_));
    ASSERT_TRUE(kept_->commit());
    EXPECT_FALSE(is_there(second_));
    EXPECT_TRUE(is_there(first_));
}

TEST_F(ConversationRecordsTest, OfSeveralCutsThoseCountThatCameLater) {
    keep(key(1, 1), 0);
    keep(key(1, 2), 64);
    keep(key(1, 3), 64);
    written(key(1, 1), first_);
    written(key(1, 1), second_);
    written(key(1, 2), third_);
    EXPECT_TRUE(is_there(first_));
    EXPECT_TRUE(is_there(second_)) << "64 tokens were left";
    EXPECT_FALSE(is_there(third_));
    written(key(1, 3), third_);
    EXPECT_TRUE(is_there(third_));
    keep(key(1, 4), 32);
    written(key(1, 1), other_);
    EXPECT_FALSE(is_there(other_));
    EXPECT_FALSE(is_there(second_));
}

TEST_F(ConversationRecordsTest, AForkKeepsWhatItsOriginTakesBack) {
    fork(key(2), {&first_, &second_});
    keep(key(1, 1), 32);
    written(key(1, 0), first_);
    written(key(1, 0), second_);
    EXPECT_TRUE(is_there(second_)) << "the fork's";
    written(key(1, 0), third_);
    EXPECT_FALSE(is_there(third_)) << "behind the fork";
    remove(key(2));
    EXPECT_FALSE(is_there(second_));
    EXPECT_TRUE(is_there(first_));
}

TEST_F(ConversationRecordsTest, AForkTakesBackWhatItsOriginStillWrites) {
    fork(key(2), {&first_, &second_});
    keep(key(2, 1), 32);
    written(key(1), first_);
    written(key(1), second_);
    remove(key(1));
    EXPECT_TRUE(is_there(first_));
    EXPECT_FALSE(is_there(second_));
}

/// It is as long as what the fork has.
TEST_F(ConversationRecordsTest, AForkHasNothingOfWhatItsOriginSaysInstead) {
    fork(key(2), {&first_, &second_});
    keep(key(1, 1), 32);
    written(key(1, 1), other_);
    ASSERT_TRUE(is_there(other_));
    remove(key(1));
    EXPECT_FALSE(is_there(other_));
}

/// Of a prompt that was cancelled: it is shorter than what the fork has, and was never told.
TEST_F(ConversationRecordsTest, AForkHasNothingOfAPromptThatBecameNoRound) {
    written(key(1), first_);
    written(key(1), other_);
    fork(key(2), {&first_, &second_});
    written(key(1), second_);
    remove(key(1));
    EXPECT_TRUE(is_there(first_));
    EXPECT_TRUE(is_there(second_));
    EXPECT_FALSE(is_there(other_));
}

TEST_F(ConversationRecordsTest, AForkHasWhatItsMethodsComputed) {
    const Round sparse = round("t", &first_, 400, 32, Exactness::sparse);
    written(key(1), first_);
    written(key(1), sparse);
    fork(key(2), {&first_, &sparse}, 1, {"another", method});
    remove(key(1));
    EXPECT_TRUE(is_there(first_));
    EXPECT_TRUE(is_there(sparse));
    fork(key(3), {&first_, &sparse}, 2, {"another"});
    remove(key(2));
    EXPECT_TRUE(is_there(first_));
    EXPECT_FALSE(is_there(sparse));
}

TEST_F(ConversationRecordsTest, AForkHasWhatARemovedOriginStillWrites) {
    fork(key(2), {&first_, &second_});
    fork(key(3), {&first_, &second_}, 2);
    remove(key(1));
    written(key(1), first_);
    EXPECT_TRUE(is_there(first_));
    remove(key(2));
    written(key(1), second_);
    EXPECT_TRUE(is_there(second_)) << "the fork's fork has it";
    written(key(1), third_);
    EXPECT_FALSE(is_there(third_));
    remove(key(3));
    EXPECT_FALSE(is_there(first_));
    EXPECT_FALSE(is_there(second_));
}

/// As many forks as one likes, each of the newest: only the last ones are noted.
TEST_F(ConversationRecordsTest, OfAChainOfForksTheLastHaveWhatTheirOriginsStillWrite) {
    for (uint64_t number = 2; number <= 1'001; ++number)
        ASSERT_TRUE(kept_->keep({key(number), {}, {}, key(number - 1).name, {}, first_.ids}));
    remove(key(1));
    written(key(1), first_);
    EXPECT_FALSE(is_there(first_)) << "no fork of it is noted any more";
    remove(key(991));
    written(key(991), first_);
    EXPECT_TRUE(is_there(first_));
    for (uint64_t number = 992; number <= 1'001; ++number) {
        EXPECT_TRUE(is_there(first_)) << number;
        remove(key(number));
    }
    EXPECT_FALSE(is_there(first_));
}

/// Removed forks are noted, too, and no longer than others.
TEST_F(ConversationRecordsTest, OfAChainOfRemovedForksTheLastHasWhatTheirOriginsStillWrite) {
    for (uint64_t number = 2; number <= 200; ++number) {
        ASSERT_TRUE(kept_->keep({key(number), {}, {}, key(number - 1).name, {}, first_.ids}));
        remove(key(number - 1));
    }
    written(key(1), first_);
    EXPECT_FALSE(is_there(first_)) << "no fork of it is noted any more";
    written(key(190), first_);
    EXPECT_TRUE(is_there(first_)) << "the last one has it";
    remove(key(200));
    EXPECT_FALSE(is_there(first_));
}

/// Nothing of the first one is left, though it was not removed.
TEST_F(ConversationRecordsTest, AForkThatIsBegunTwiceHasOnlyTheSecondOrigin) {
    keep(key(3));
    fork(key(2), {&first_, &second_});
    fork(key(2), {&first_}, 3);
    remove(key(1));
    written(key(1), first_);
    EXPECT_FALSE(is_there(first_));
    written(key(3), first_);
    remove(key(3));
    EXPECT_TRUE(is_there(first_)) << "the fork's";
    remove(key(2));
    EXPECT_FALSE(is_there(first_));
    written(key(1), first_);
    EXPECT_FALSE(is_there(first_)) << "the fork is removed";
}

/// A first turn that fails costs the disk nothing.
TEST_F(ConversationRecordsTest, OneThatWasNeverKeptIsRemovedWithoutTheDisk) {
    {
        const NoMoreBytes disk;
        EXPECT_TRUE(kept_->remove(key(9)));
        EXPECT_TRUE(kept_->clear_removed());
    }
    keep(key(9));
    EXPECT_EQ(kept_->count(), 1U) << "it comes too late";
    written(key(9), first_);
    EXPECT_FALSE(is_there(first_));
}

/// Whoever reads it counts its cuts from 0 again.
TEST_F(ConversationRecordsTest, ASessionThatBeganAnewOwnsWhatItWrites) {
    keep(key(1, 1), 32);
    ASSERT_TRUE(kept_->body(key(1).name));
    written(key(1, 0), first_);
    written(key(1, 0), second_);
    EXPECT_TRUE(is_there(second_));
}

/// Where the disk does not take what another one has come to.
TEST_F(ConversationRecordsTest, AConversationIsReadWhateverBecomesOfOthers) {
    const std::vector<std::byte> body(100, std::byte{7});
    ASSERT_TRUE(kept_->keep({key(1), {}, body, {}, {}}));
    ASSERT_TRUE(kept_->commit());
    ASSERT_TRUE(kept_->keep({key(2), {}, body, {}, {}}));
    {
        const NoMoreBytes disk;
        EXPECT_EQ(kept_->body(key(1).name).value(), body);
        ASSERT_TRUE(kept_->keep({key(2), {}, body, {}, {}}));
        EXPECT_FALSE(kept_->body(key(2).name)) << "nobody knows what it is";
    }
    ASSERT_TRUE(kept_->keep({key(2), {}, body, {}, {}}));
    EXPECT_EQ(kept_->body(key(2).name).value(), body);
}

/// What a disk did not let go leaves with what leaves next.
TEST_F(ConversationRecordsTest, WhatTheDiskDoesNotLetGoLeavesLater) {
    written(key(1), first_);
    written(key(1), second_);
    const auto heads = [this] {
        int count = 0;
        EXPECT_TRUE(Shelf(store_->manifest(), store_->keys()).each_head([&count](const auto&, const auto&) {
            ++count;
            return Status::ok();
        }));
        return count;
    };
    ASSERT_EQ(heads(), 1);
    {
        const NoMoreBytes disk;
        EXPECT_TRUE(kept_->remove(key(1)));
        EXPECT_FALSE(kept_->clear_removed());
        EXPECT_FALSE(is_there(first_)) << "not found from now on";
    }
    ASSERT_TRUE(kept_->forget_removed());
    EXPECT_EQ(heads(), 0);
    open();
    EXPECT_FALSE(is_there(first_));
    EXPECT_FALSE(is_there(second_));
}

/// Deleted, begun again, and the disk takes neither: the old one must not come back.
TEST_F(ConversationRecordsTest, WhatIsBegunAgainIsNotTheOldOne) {
    const std::vector<std::byte> old(100, std::byte{7}), fresh(100, std::byte{8});
    ASSERT_TRUE(kept_->keep({key(1), {}, old, {}, {}}));
    ASSERT_TRUE(kept_->commit());
    const ConversationKey again{key(1).name, 2};
    {
        const NoMoreBytes disk;
        EXPECT_TRUE(kept_->remove(key(1)));
        EXPECT_FALSE(kept_->clear_removed());
        EXPECT_FALSE(kept_->body(key(1).name));
        ASSERT_TRUE(kept_->keep({again, {}, fresh, {}, {}}));
        EXPECT_FALSE(kept_->commit());
        EXPECT_FALSE(kept_->body(key(1).name));
    }
    ASSERT_TRUE(kept_->forget_removed());
    EXPECT_FALSE(kept_->body(key(1).name));
    ASSERT_TRUE(kept_->keep({again, {}, fresh, {}, {}}));
    EXPECT_EQ(kept_->body(key(1).name).value(), fresh);
    ASSERT_TRUE(kept_->forget_removed());
    EXPECT_EQ(kept_->body(key(1).name).value(), fresh);
}

/// What was to be of the first one does not matter, nor does what it gave up.
TEST_F(ConversationRecordsTest, OneThatIsRemovedAndBegunAgainBeforeTheDiskHasHeardOfItIsTheSecond) {
    const std::vector<std::byte> old(100, std::byte{7}), fresh(100, std::byte{8});
    written(key(1), first_);
    written(key(1), second_);
    ASSERT_TRUE(kept_->keep({key(1, 1), {}, old, {}, 32}));
    ASSERT_TRUE(kept_->remove(key(1)));
    const ConversationKey again{key(1).name, 2};
    ASSERT_TRUE(kept_->keep({again, {}, fresh, {}, {}}));
    ASSERT_TRUE(kept_->commit());
    EXPECT_FALSE(is_there(first_));
    ASSERT_TRUE(kept_->clear_removed());
    EXPECT_EQ(kept_->body(again.name).value(), fresh);
    EXPECT_FALSE(is_there(first_));
    EXPECT_FALSE(is_there(second_));
    ASSERT_TRUE(kept_->keep({again, {}, old, {}, {}}));
    ASSERT_TRUE(kept_->remove(again));
    ASSERT_TRUE(kept_->clear_removed());
    EXPECT_FALSE(kept_->body(again.name));
    EXPECT_EQ(kept_->count(), 0U);
}

TEST_F(ConversationRecordsTest, AnotherOfTheSameNameHasNothingOfAFork) {
    fork(key(2), {&first_, &second_});
    remove(key(2));
    const ConversationKey again{key(2).name, 3};
    keep(again);
    written(key(1), first_);
    remove(key(1));
    EXPECT_FALSE(is_there(first_));
}

/// It had left because nobody used it; then somebody else computes the same and the store has it again.
TEST_F(ConversationRecordsTest, WhatHadLeftAndIsWrittenAgainIsItsNewOwners) {
    written(key(1), first_);
    written(key(1), second_);
    now_ += options_.unused_seconds_max + 1;
    ASSERT_TRUE(store_->expire());
    EXPECT_FALSE(is_there(first_));
    keep(key(2));
    written(key(2), first_);
    remove(key(1));
    EXPECT_TRUE(is_there(first_)) << "the second's alone";
    remove(key(2));
    EXPECT_FALSE(is_there(first_));
}

TEST_F(ConversationRecordsTest, WhatHadLeftAndIsWrittenAgainForItselfIsThere) {
    written(key(1), first_);
    now_ += options_.unused_seconds_max + 1;
    ASSERT_TRUE(store_->expire());
    written(key(1), first_);
    written(key(1), second_);
    EXPECT_TRUE(is_there(first_));
    keep(key(1, 1), 32);
    EXPECT_TRUE(is_there(first_));
    EXPECT_FALSE(is_there(second_));
    remove(key(1));
    EXPECT_FALSE(is_there(first_));
}

/// Without keys somebody can search for an id that has the name of another tenant's conversation.
TEST_F(ConversationRecordsTest, OneNameIsOneConversations) {
    const auto one_for_all = [](const ConversationName&) { return StoreName{}; };
    kept_.emplace(*store_, one_for_all);
    const ConversationKey own{{"a", "notes"}, 7, 0}, others{{"b", "searched for"}, 8, 0};
    const std::vector<std::byte> text(10, std::byte{7}), other(10, std::byte{8});
    const auto as_kept = [](const ConversationKey& key, const std::vector<std::byte>& body) {
        return ConversationToKeep{key, {}, body, {}, {}, {}, {}};
    };
    ASSERT_TRUE(kept_->keep(as_kept(own, text)));
    ASSERT_TRUE(kept_->tie(own, (written(own, first_), name_of(first_))));
    EXPECT_FALSE(kept_->keep(as_kept(others, other)));
    EXPECT_EQ(kept_->body(others.name).error().code, ErrorCode::not_found);
    ASSERT_EQ(write(second_), KvStore::Refusal::none);
    EXPECT_TRUE(kept_->tie(others, name_of(second_)));
    EXPECT_FALSE(is_there(second_)) << "it is nobody's";
    EXPECT_TRUE(kept_->remove(others));
    EXPECT_EQ(kept_->body(own.name).value(), text);
    EXPECT_TRUE(is_there(first_));
    EXPECT_TRUE(kept_->keep(as_kept(own, other))) << "its number is not a removed one's";
    EXPECT_EQ(kept_->body(own.name).value(), other);
}

}  // namespace
}  // namespace rondo
