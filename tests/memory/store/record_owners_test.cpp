#include "memory/store/record_owners.hpp"

#include <gtest/gtest.h>

namespace rondo {
namespace {

class RecordOwnersTest : public ::testing::Test {
protected:
    using Names = std::set<StoreName>;
    static StoreName name(int number) {
        StoreName made{};
        made.back() = static_cast<std::byte>(number);
        return made;
    }

    const StoreName a_ = name(1), b_ = name(2), one_ = name(11), two_ = name(12);
    RecordOwners owners_;
};

TEST_F(RecordOwnersTest, ARecordBelongsToAllWhoHaveIt) {
    EXPECT_FALSE(owners_.has_owner(one_));
    EXPECT_TRUE(owners_.add(a_, one_));
    EXPECT_TRUE(owners_.add(b_, one_));
    EXPECT_TRUE(owners_.add(b_, two_));
    EXPECT_FALSE(owners_.add(b_, two_)) << "it has it already";
    EXPECT_EQ(owners_.owners_of(one_), (Names{a_, b_}));
    EXPECT_EQ(owners_.records_of(b_), (Names{one_, two_}));
    owners_.remove(a_, one_);
    EXPECT_TRUE(owners_.has_owner(one_)) << "the other's, too";
    EXPECT_TRUE(owners_.records_of(a_).empty());
    owners_.remove(b_, one_);
    owners_.remove(b_, one_);
    EXPECT_FALSE(owners_.has_owner(one_));
    EXPECT_EQ(owners_.records_of(b_), Names{two_});
    owners_.remove(b_, two_);
    EXPECT_FALSE(owners_.has_owner(two_)) << "added twice, it is owned once";
}

TEST_F(RecordOwnersTest, ARecordThatHasLeftIsNobodys) {
    for (const StoreName& owner : {a_, b_}) owners_.add(owner, one_);
    owners_.add(a_, two_);
    owners_.is_gone(one_);
    EXPECT_FALSE(owners_.has_owner(one_));
    EXPECT_TRUE(owners_.owners_of(one_).empty());
    EXPECT_EQ(owners_.records_of(a_), Names{two_});
    EXPECT_TRUE(owners_.records_of(b_).empty());
    owners_.is_gone(one_);
    EXPECT_TRUE(owners_.add(b_, one_)) << "another record of that name";
    EXPECT_EQ(owners_.owners_of(one_), Names{b_});
}

}  // namespace
}  // namespace rondo
