#include "actors/tenant_shares.hpp"

#include <gtest/gtest.h>

namespace rondo {
namespace {

size_t taken_by(TenantShares& shares, const Tenant& tenant, size_t taken) {
    size_t got = 0;
    for (; shares.has_room(tenant, 1, taken + got); ++got) shares.take(tenant);
    return got;
}

TEST(TenantShares, ATenantAloneLeavesAFifth) {
    TenantShares shares(100, true);
    EXPECT_EQ(taken_by(shares, "ann", 0), 80U);
    EXPECT_FALSE(shares.has_room("ann", 1, 80));
}

TEST(TenantShares, WhoComesLateFindsRoomAndTheFirstMustWait) {
    TenantShares shares(100, true);
    const size_t ann = taken_by(shares, "ann", 0), bob = taken_by(shares, "bob", ann);
    EXPECT_EQ(bob, 16U);
    EXPECT_FALSE(shares.has_room("ann", 1, ann + bob));
    EXPECT_TRUE(shares.has_room("cat", 1, ann + bob));
    shares.give_back("ann");
    EXPECT_FALSE(shares.has_room("ann", 1, ann + bob - 1));
    EXPECT_TRUE(shares.has_room("bob", 1, ann + bob - 1));
}

TEST(TenantShares, SeveralAreAsManyOneAfterTheOther) {
    TenantShares shares(100, true);
    shares.take("ann", 70);
    EXPECT_TRUE(shares.has_room("ann", 10, 70));
    EXPECT_FALSE(shares.has_room("ann", 11, 70)) << "the last one would be beyond four fifths";
    EXPECT_TRUE(shares.has_room("bob", 30, 70)) << "he holds none";
}

TEST(TenantShares, WhatIsPromisedToATenantIsHis) {
    const TenantShares shares(100, true);
    EXPECT_TRUE(shares.has_room("ann", 1, 80));
    EXPECT_TRUE(shares.has_room("ann", 1, 79, 79));
    EXPECT_FALSE(shares.has_room("ann", 1, 80, 80));
}

TEST(TenantShares, FewPlacesMayAllBeTaken) {
    TenantShares shares(3, true);
    EXPECT_EQ(taken_by(shares, "ann", 0), 3U);
}

TEST(TenantShares, WithoutTenantsAllMayBeTaken) {
    TenantShares shares(100, false);
    EXPECT_FALSE(shares.has_room("", 101, 0));
    EXPECT_TRUE(shares.has_room("", 100, 0));
    EXPECT_EQ(taken_by(shares, "", 0), 100U);
    for (int i = 0; i < 100; ++i) shares.give_back("");
    EXPECT_EQ(shares.held(""), 0U);
}

}  // namespace
}  // namespace rondo
