#include "model/kv_need.hpp"

#include <gtest/gtest.h>

#include "model/attention/policies/decode_selection/decode_selection.hpp"

namespace rondo {
namespace {

TEST(KvNeed, RoundsMayEachLeaveABlockPartlyFilled) {
    EXPECT_EQ(blocks_of_rounds(0), 1);
    EXPECT_EQ(blocks_of_rounds(1), 3);
    EXPECT_EQ(blocks_of_rounds(64), 9);
    EXPECT_EQ(blocks_of_rounds(65), 11);
}

TEST(KvNeed, OnlyAnswersThatChooseKeysHaveCopies) {
    DecodeAttention decode;
    decode.budget_tokens = 64;
    EXPECT_EQ(blocks_of_copies(decode, nullptr, 1000), 0);
    DecodeAttention other = decode;
    other.method = DecodeAttention::Method::progressive;
    EXPECT_EQ(blocks_of_copies(other, nullptr, 1000), 2 * (4 + 2));
    EXPECT_EQ(blocks_of_copies(other, nullptr, 20), 2 * (2 + 2)) << "no more keys than there are";
    EXPECT_EQ(blocks_of_copies(decode, make_decode_selection(other).get(), 1000), 2 * (4 + 2))
        << "a method in place of dense";
}

}  // namespace
}  // namespace rondo
