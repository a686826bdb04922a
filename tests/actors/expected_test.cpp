#include "actors/expected.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "memory/prefix_cache.hpp"
#include "tests/memory/fake_device.hpp"

namespace rondo {
namespace {

class ExpectedTest : public ::testing::Test {
protected:
    ExpectedTest() {
        const KvShape shape{.layers = 2, .lower_layers = 1, .kv_heads = 1, .atom = {DType::f32, 4}};
        pool_ = std::move(KvPool::create(device_, shape, {16, 16})).value();
        cache_ = std::make_unique<PrefixCache>(*pool_);
    }
    /// The blocks of a conversation as they are found again.
    SequenceKv talk(int32_t number, int64_t tokens = 40) {
        std::vector<int32_t> ids(static_cast<size_t>(tokens));
        std::iota(ids.begin(), ids.end(), 1000 * number);
        if (SequenceKv kv = cache_->match("t", ids, tokens); kv.tokens() == tokens) return kv;
        SequenceKv computed(*pool_);
        EXPECT_TRUE(computed.extend(tokens).is_ok());
        cache_->insert("t", ids, computed);
        return cache_->match("t", ids, tokens);
    }
    size_t free() const { return pool_->blocks_free(LayerGroup::upper); }

    testing::FakeDevice device_;
    std::unique_ptr<KvPool> pool_;
    std::unique_ptr<PrefixCache> cache_;
    Expected expected_;
    double now_ = 100.0;
};

TEST_F(ExpectedTest, HoldsBlocksForAMoment) {
    expected_.add(talk(1), 1, now_);
    EXPECT_TRUE(cache_->make_room({13, 13}));
    EXPECT_FALSE(cache_->make_room({14, 14}));
    EXPECT_NEAR(expected_.worth_waiting(now_ + 0.005), Expected::seconds_max - 0.005, 1e-9);
    expected_.expire(now_ + Expected::seconds_max);
    EXPECT_TRUE(expected_.empty());
    EXPECT_EQ(expected_.worth_waiting(now_), 0.0);
    EXPECT_TRUE(cache_->make_room({16, 16}));
}

TEST_F(ExpectedTest, EndsWithTheConversation) {
    const size_t before = free();
    expected_.add(talk(1), 1, now_);
    expected_.add(talk(2), 0, now_);
    expected_.forget(2);
    expected_.forget(0);
    EXPECT_FALSE(cache_->make_room({16, 16}));
    expected_.forget(1);
    EXPECT_FALSE(expected_.empty()) << "one that has no number is not forgotten by it";
    EXPECT_TRUE(cache_->make_room({13, 13}));
    expected_.clear();
    EXPECT_TRUE(cache_->make_room({16, 16}));
    EXPECT_EQ(free(), before);
}

TEST_F(ExpectedTest, EndsWhenTheConversationGoesOn) {
    expected_.add(talk(1), 1, now_);
    expected_.add(talk(2), 2, now_);
    expected_.came(talk(3));
    EXPECT_FALSE(expected_.empty());
    expected_.came(talk(2));
    expected_.came(talk(1));
    EXPECT_TRUE(expected_.empty());
}

TEST_F(ExpectedTest, LetsGoOfTheFirstToBeOver) {
    expected_.add(talk(1), 1, now_);
    expected_.add(talk(2), 2, now_ + 0.001);
    EXPECT_TRUE(expected_.give_up_next());
    EXPECT_NEAR(expected_.worth_waiting(now_ + 0.001), Expected::seconds_max, 1e-9);
    EXPECT_TRUE(expected_.give_up_next());
    EXPECT_FALSE(expected_.give_up_next());
}

/// Clients who take longer are hardly waited for, and are again when they come at once.
TEST_F(ExpectedTest, WaitsOnlyWhileWaitingPays) {
    const auto waits = [&](bool comes) {
        expected_.add(talk(1), 1, now_);
        const bool waited = expected_.worth_waiting(now_) > 0.0;
        if (comes) expected_.came(talk(1));
        expected_.expire(now_ += 1.0);
        return waited;
    };
    const auto of_a_hundred = [&](bool come) {
        int waited = 0;
        for (int i = 0; i < 100; ++i) waited += waits(come);
        return waited;
    };
    EXPECT_EQ(of_a_hundred(true), 100);
    const int for_those_who_stay_away = of_a_hundred(false);
    EXPECT_GT(for_those_who_stay_away, 5);
    EXPECT_LT(for_those_who_stay_away, 25);
    EXPECT_GT(of_a_hundred(true), 40);
}

/// A turn that ends while nobody needs its room says nothing about whether waiting pays.
TEST_F(ExpectedTest, LearnsNothingFromThoseWhomNobodyWaitedFor) {
    for (int i = 0; i < 100; ++i) {
        expected_.add(talk(1), 1, now_);
        expected_.expire(now_ += 1.0);
    }
    expected_.add(talk(1), 1, now_);
    EXPECT_GT(expected_.worth_waiting(now_), 0.0);
}

}  // namespace
}  // namespace rondo
