#include <gtest/gtest.h>

#include "tests/model/sampled_attention.hpp"

namespace rondo {
namespace {

using testing::Pattern;
using testing::SampledAttention;

/// Of what four keys and the rows' own blocks leave.
PrefillAttention beside_first_keys(double alpha) {
    return {
        .method = PrefillAttention::Method::loopserve, .alpha = alpha, .first_keys = 4, .near_keys = 1, .blocks = 0};
}

TEST(LoopServeFirstKeys, HoldAlphaOfWhatTheyLeave) {
    uint32_t seed = 40;
    for (const Pattern pattern : testing::patterns) {
        const auto in = testing::sampled_attention({.first_row = 700, .rows = 90, .sampled = 90}, pattern, ++seed);
        for (const double alpha : {0.1, 0.5, 0.9}) {
            PrefillAttention settings = beside_first_keys(alpha);
            settings.near_keys = 40;
            Lines lines, always{.columns = {0, 1, 2, 3}, .bands = {0, 1, 2, 3}, .blocks = {}};
            make_prefill_sparsity(settings)->select(in.chunk(), in.sampled(), lines);
            EXPECT_TRUE(std::ranges::includes(lines.columns, always.columns)) << seed;
            EXPECT_TRUE(std::ranges::includes(lines.bands, always.bands)) << seed;
            const double kept = covered_by(in, always).mass, left = in.total() - kept;
            EXPECT_GE(covered_by(in, lines).mass, kept + alpha * left - 1e-4 * in.total()) << seed << " " << alpha;
            settings.alpha_of = PrefillAttention::AlphaOf::each_row;
            make_prefill_sparsity(settings)->select(in.chunk(), in.sampled(), lines);
            EXPECT_GE(covered_by(in, lines).least_of_a_row, alpha - 1e-4) << seed << " " << alpha;
        }
    }
}

TEST(LoopServeFirstKeys, AreNoMoreThanThereAre) {
    const auto in = testing::sampled_attention({.first_row = 0, .rows = 3, .sampled = 3}, Pattern::uniform, 3);
    PrefillAttention settings = beside_first_keys(0.5);
    settings.first_keys = 4096;
    settings.near_keys = 1 << 20;
    Lines lines;
    make_prefill_sparsity(settings)->select(in.chunk(), in.sampled(), lines);
    EXPECT_EQ(std::ssize(lines.columns), in.keys());
    EXPECT_EQ(std::ssize(lines.bands), in.chunk().blocks());
}

/// Each row of a first chunk looks at its own key alone. Row 4 also looks at four others, as little as can be: beside
/// its own key they are lost one by one, and together they count.
SampledAttention looks_at_itself() {
    auto in = testing::sampled_attention({.first_row = 0, .rows = 64, .sampled = 64}, Pattern::uniform, 1);
    in.block_begin = {0, 16, 32, 48, 64};
    std::ranges::fill(in.weights, 0.0F);
    for (size_t row = 0; row < 64; ++row) in.weights[row * 64 + row] = 1.0F;
    std::fill_n(in.weights.begin() + 4 * 64, 4, 0x1p-25F);
    return in;
}

TEST(LoopServeFirstKeys, LeaveNothingWhereRoundingAloneSaysSo) {
    const auto in = looks_at_itself();
    for (const auto alpha_of : {PrefillAttention::AlphaOf::sum, PrefillAttention::AlphaOf::each_row}) {
        PrefillAttention settings = beside_first_keys(0.9);
        settings.alpha_of = alpha_of;
        Lines lines;
        make_prefill_sparsity(settings)->select(in.chunk(), in.sampled(), lines);
        EXPECT_EQ(lines.dense_rows, 0);
        EXPECT_EQ(lines.bands, (std::vector<int32_t>{0}));
        EXPECT_EQ(lines.columns, (std::vector<int32_t>{0, 1, 2, 3}));
    }
}

TEST(LoopServeFirstKeys, LeaveTheLittleThatOneRowLooksAtElsewhere) {
    auto in = looks_at_itself();
    in.weights[40 * 64 + 40] = 1.0F - 0x1p-16F;
    in.weights[40 * 64 + 20] = 0x1p-16F;
    PrefillAttention settings = beside_first_keys(0.9);
    settings.alpha_of = PrefillAttention::AlphaOf::each_row;
    Lines lines;
    make_prefill_sparsity(settings)->select(in.chunk(), in.sampled(), lines);
    EXPECT_EQ(lines.dense_rows, 0);
    EXPECT_EQ(lines.bands, (std::vector<int32_t>{0}));
    EXPECT_EQ(lines.columns, (std::vector<int32_t>{0, 1, 2, 3, 20}));
}

}  // namespace
}  // namespace rondo
