#include "model/logit_blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace rondo {
namespace {

TEST(LogitBlocks, WeightsAreExponentials) {
    std::vector<float> logits{0.0F};
    for (float x = 0.0F; x > -86.9F; x -= 0.0137F) logits.push_back(x);
    auto weights = logits;
    LogitBlocks blocks(static_cast<int64_t>(logits.size()), false);
    ASSERT_EQ(blocks.scan(weights), 0.0F);
    blocks.weigh(weights, 0.0F, 1.0F, {});
    for (size_t i = 0; i < logits.size(); ++i) {
        const double exact = std::exp(double{logits[i]});
        ASSERT_NEAR(weights[i], exact, 2.4e-7 * exact) << "exp(" << logits[i] << ")";
    }
    EXPECT_EQ(weights[0], 1.0F);
}

TEST(LogitBlocks, WeightsTooSmallForAFloatAreZero) {
    std::vector<float> logits{3.0F, -84.5F, -1e30F, -INFINITY, NAN};
    LogitBlocks blocks(5, false);
    blocks.weigh(logits, blocks.scan(logits), 1.0F, {});
    EXPECT_EQ(logits, (std::vector<float>{1, 0, 0, 0, 0}));
}

TEST(LogitBlocks, MassIsTheSumOfTheExponentials) {
    for (const size_t size : {size_t{1}, size_t{63}, size_t{64}, size_t{1000}}) {
        std::mt19937 random(static_cast<uint32_t>(size));
        std::vector<float> logits(size);
        for (float& logit : logits) logit = std::normal_distribution<float>(0.0F, 5.0F)(random);
        LogitBlocks blocks(static_cast<int64_t>(size), false);
        const float largest = blocks.scan(logits);
        double exact = 0.0;
        for (const float logit : logits) exact += std::exp(double{logit} - largest);
        EXPECT_NEAR(blocks.mass(logits, largest), exact, 1e-6 * exact);
    }
}

TEST(LogitBlocks, TopAgreesWithSorting) {
    for (uint32_t seed = 1; seed <= 200; ++seed) {
        std::mt19937 random(seed);
        std::vector<float> logits(1 + random() % 1000);
        // Few distinct values, so that ties are common.
        for (float& logit : logits) logit = static_cast<float>(random() % 50);
        std::vector<Candidate> sorted;
        for (size_t i = 0; i < logits.size(); ++i) sorted.push_back({logits[i], static_cast<int32_t>(i)});
        std::ranges::stable_sort(sorted, std::greater(), &Candidate::value);
        const size_t count = 1 + random() % (logits.size() + 10);
        sorted.resize(std::min(count, sorted.size()));

        LogitBlocks blocks(static_cast<int64_t>(logits.size()), true);
        blocks.scan(logits);
        const auto top = blocks.top(logits, count);
        ASSERT_EQ(top.size(), sorted.size()) << "seed " << seed;
        ASSERT_EQ(top.back().id, sorted.back().id) << "seed " << seed;
        std::ranges::sort(top, {}, &Candidate::id);
        std::ranges::sort(sorted, {}, &Candidate::id);
        for (size_t i = 0; i < top.size(); ++i) ASSERT_EQ(top[i].id, sorted[i].id) << "seed " << seed;
    }
}

}  // namespace
}  // namespace rondo
