#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/model/sampled_attention.hpp"

namespace rondo {
namespace {

using PrefillMethod = PrefillAttention::Method;
using testing::Pattern;
using testing::SampledAttention;

Lines choose(const SampledAttention& in, PrefillMethod method, double density = 0.1,
             std::span<const float> scores = {}) {
    Lines lines;
    SampledRows sampled = in.sampled();
    sampled.block_scores = scores;
    make_prefill_sparsity({.method = method, .density = density})->select(in.chunk(), sampled, lines);
    return lines;
}

SampledAttention last_rows(int64_t first_row, int64_t rows, Pattern pattern, uint32_t seed) {
    return testing::sampled_attention({.first_row = first_row, .rows = rows, .sampled = 64, .spread = false}, pattern,
                                      seed);
}

std::vector<int32_t> counted(int64_t count) {
    std::vector<int32_t> list(static_cast<size_t>(count));
    std::iota(list.begin(), list.end(), 0);
    return list;
}

/// `count` of what a method has beside `full` keys, when its bands are that many.
int64_t scaled(double count, double full, size_t bands) {
    return std::llround(count * 16.0 * static_cast<double>(bands) / full);
}

/// What each column or band of the sampled rows weighs.
struct Masses {
    std::vector<double> columns, bands;
    explicit Masses(const SampledAttention& in)
        : columns(static_cast<size_t>(in.keys())), bands(static_cast<size_t>(in.chunk().blocks())) {
        for (size_t row = 0; row < in.rows.size(); ++row) {
            for (int64_t key = 0; key <= in.key_of(row); ++key) {
                columns[static_cast<size_t>(key)] += in.weight(row, key);
                bands[static_cast<size_t>(in.block_of(in.key_of(row)) - in.block_of(key))] += in.weight(row, key);
            }
        }
    }
};

bool holds(const std::vector<int32_t>& list, int64_t item) {
    return std::ranges::binary_search(list, item);
}

/// Lines from `always` on: none that was left out weighs more than one that was chosen.
void expect_greatest(const std::vector<int32_t>& chosen, const std::vector<double>& masses, int64_t always) {
    double least = 1e9, greatest = 0.0;
    for (int64_t line = always; line < std::ssize(masses); ++line) {
        const double mass = masses[static_cast<size_t>(line)];
        if (holds(chosen, line)) {
            least = std::min(least, mass);
        } else {
            greatest = std::max(greatest, mass);
        }
    }
    EXPECT_GE(least, greatest - 1e-5);
}

TEST(AShape, IsTheFirstKeysAndAWindow) {
    for (const double density : {0.05, 0.1, 0.4}) {
        const auto in = last_rows(3000, 256, Pattern::uniform, 1);
        const Lines lines = choose(in, PrefillMethod::a_shape, density);
        EXPECT_EQ(lines.bands, counted(std::ssize(lines.bands)));
        EXPECT_EQ(lines.columns, counted(std::max<int64_t>(4, scaled(128, 3968, lines.bands.size()))));
        EXPECT_EQ(lines.dense_rows, 0);
        EXPECT_TRUE(lines.blocks.empty());
    }
}

TEST(TriShape, IsAShapeAndTheLastRows) {
    for (const double density : {0.05, 0.1, 0.4}) {
        const auto in = last_rows(3000, 256, Pattern::uniform, 1);
        const Lines lines = choose(in, PrefillMethod::tri_shape, density);
        EXPECT_EQ(lines.bands, counted(std::ssize(lines.bands)));
        EXPECT_EQ(lines.columns, counted(std::max<int64_t>(4, scaled(128, 3968, lines.bands.size()))));
        EXPECT_EQ(lines.dense_rows, std::max<int64_t>(1, scaled(100, 3968, lines.bands.size())));
        EXPECT_TRUE(lines.blocks.empty());
    }
}

class GivenDensity : public ::testing::TestWithParam<PrefillMethod> {};

TEST_P(GivenDensity, CoversThatShare) {
    for (const int64_t first_row : {0, 900, 4000}) {
        const auto in = last_rows(first_row, 512, Pattern::peaked, 11);
        for (const double density : {0.05, 0.1, 0.3, 0.7}) {
            // A band more or less, and the columns and rows that come with it, is as near as it gets.
            const double step = 16.0 * 1.3 / (static_cast<double>(first_row) + 256.0);
            EXPECT_NEAR(testing::share(in.chunk(), choose(in, GetParam(), density)), density, step / 2 + 0.005)
                << first_row;
        }
    }
}

TEST_P(GivenDensity, CoversEverythingAtOne) {
    for (const int64_t first_row : {0, 500}) {
        const auto in = last_rows(first_row, 100, Pattern::local, 3);
        EXPECT_EQ(testing::share(in.chunk(), choose(in, GetParam(), 1.0)), 1.0);
    }
}

INSTANTIATE_TEST_SUITE_P(Methods, GivenDensity,
                         ::testing::Values(PrefillMethod::a_shape, PrefillMethod::tri_shape,
                                           PrefillMethod::minference));

TEST(MInference, TakesTheColumnsAndBandsWithTheMostMass) {
    for (const Pattern pattern : {Pattern::peaked, Pattern::sink_and_needles}) {
        const auto in = last_rows(2500, 200, pattern, 4);
        const Lines lines = choose(in, PrefillMethod::minference, 0.2);
        const Masses masses(in);
        const int64_t first = std::max<int64_t>(1, scaled(30, 6096, lines.bands.size()));
        const int64_t near = scaled(100, 6096, lines.bands.size());
        EXPECT_EQ(std::ssize(lines.columns), scaled(1000, 6096, lines.bands.size()));
        expect_greatest(lines.columns, masses.columns, first);
        expect_greatest(lines.bands, masses.bands, 1 + (near + 14) / 16);
        EXPECT_EQ(lines.dense_rows, 0);
    }
}

TEST(MInference, AlwaysTakesTheFirstColumnsAndNearestDiagonals) {
    auto in = last_rows(11'000, 64, Pattern::uniform, 4);
    for (size_t row = 0; row < in.rows.size(); ++row) {
        float* const weights = in.weights.data() + row * static_cast<size_t>(in.keys());
        std::fill(weights, weights + 40, 0.0F);
        std::fill(weights + in.keys() - 400, weights + in.keys(), 0.0F);
    }
    const Lines full = choose(in, PrefillMethod::minference, 0.75);
    ASSERT_GT(full.bands.size(), 381U) << "the method's own size: 6096 diagonals";
    const auto leading = [](const std::vector<int32_t>& list) {
        int32_t count = 0;
        while (count < std::ssize(list) && list[static_cast<size_t>(count)] == count) ++count;
        return count;
    };
    EXPECT_EQ(leading(full.columns), 30);
    EXPECT_EQ(leading(full.bands), 8) << "a row at the start of its block reaches 99 keys back into seven others";
    const Lines less = choose(in, PrefillMethod::minference, 0.1);
    EXPECT_EQ(leading(less.columns), scaled(30, 6096, less.bands.size()));
    EXPECT_EQ(leading(less.bands), 2);
}

/// What pooled scores would be if they foretold each row block's mass exactly: that of its sampled rows, as a mean.
std::vector<float> exact_scores(const SampledAttention& in) {
    const int64_t blocks = in.chunk().blocks(), first = in.block_of(in.first_row);
    std::vector<double> masses(static_cast<size_t>((blocks - first) * blocks));
    for (size_t row = 0; row < in.rows.size(); ++row) {
        double* const of_row = masses.data() + (in.block_of(in.key_of(row)) - first) * blocks;
        for (int64_t key = 0; key <= in.key_of(row); ++key) of_row[in.block_of(key)] += in.weight(row, key);
    }
    std::vector<float> scores(masses.size());
    for (size_t i = 0; i < scores.size(); ++i) {
        const size_t block = i % static_cast<size_t>(blocks);
        scores[i] = static_cast<float>(std::log(masses[i] / (in.block_begin[block + 1] - in.block_begin[block])));
    }
    return scores;
}

/// What the method always takes: the first and the nearest 128 keys.
constexpr int64_t first_columns = 128, near_bands = 8;

/// The fewest lines that hold `mass`, and the first `always`.
std::vector<int32_t> fewest(const std::vector<double>& masses, double mass, int64_t always) {
    std::vector<int32_t> order = counted(std::ssize(masses));
    std::ranges::stable_sort(order, std::ranges::greater{},
                             [&](int32_t line) { return masses[static_cast<size_t>(line)]; });
    std::vector<int32_t> chosen = counted(std::min(always, std::ssize(masses)));
    double sum = 0.0;
    for (size_t i = 0; i < order.size() && sum < mass; ++i) {
        sum += masses[static_cast<size_t>(order[i])];
        if (order[i] >= always) chosen.push_back(order[i]);
    }
    std::ranges::sort(chosen);
    return chosen;
}

TEST(FlexPrefill, TakesTheFewestLinesOfEitherKindThatHoldNineTenths) {
    for (const Pattern pattern : {Pattern::peaked, Pattern::local, Pattern::sink_and_needles}) {
        const auto in = last_rows(700, 150, pattern, 8);
        const Lines lines = choose(in, PrefillMethod::flexprefill);
        const Masses masses(in);
        EXPECT_EQ(lines.columns, fewest(masses.columns, 0.9 * in.total(), first_columns));
        EXPECT_EQ(lines.bands, fewest(masses.bands, 0.9 * in.total(), near_bands));
        EXPECT_TRUE(lines.blocks.empty());
    }
}

TEST(FlexPrefill, TakesBlocksWhereTheirScoresForetellTheLastRows) {
    const auto in = last_rows(704, 64, Pattern::peaked, 15);
    const auto scores = exact_scores(in);
    const Lines lines = choose(in, PrefillMethod::flexprefill, 0.1, scores);
    EXPECT_EQ(lines.columns, counted(first_columns));
    EXPECT_EQ(lines.bands, counted(near_bands));
    ASSERT_FALSE(lines.blocks.empty());
    EXPECT_TRUE(std::ranges::is_sorted(lines.blocks));
    EXPECT_GE(covered_by(in, lines).mass, 0.85 * in.total()) << "row blocks count alike, whatever their rows";
    EXPECT_LE(testing::share(in.chunk(), lines), 0.9);
    for (const Lines::Block& each : lines.blocks) EXPECT_LE(each.key_block, each.row_block);
}

TEST(FlexPrefill, TakesLinesWhereBlockScoresMislead) {
    const auto in = last_rows(704, 64, Pattern::local, 15);
    const Lines plain = choose(in, PrefillMethod::flexprefill);
    auto scores = exact_scores(in);
    std::ranges::fill(scores, 0.0F);
    const Lines lines = choose(in, PrefillMethod::flexprefill, 0.1, scores);
    EXPECT_TRUE(lines.blocks.empty());
    EXPECT_EQ(lines.columns, plain.columns);
    EXPECT_EQ(lines.bands, plain.bands);
}

TEST(FlexPrefill, TakesLinesWhereAnyBlockScoreIsNoNumber) {
    const auto in = last_rows(704, 150, Pattern::local, 15);
    auto scores = exact_scores(in);
    const int64_t rows_before = in.block_of(in.key_of(0)) - in.block_of(in.first_row);
    std::fill(scores.begin(), scores.begin() + rows_before * in.chunk().blocks(), 0.0F);
    EXPECT_FALSE(choose(in, PrefillMethod::flexprefill, 0.1, scores).blocks.empty());
    scores[0] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(choose(in, PrefillMethod::flexprefill, 0.1, scores).blocks.empty());
}

}  // namespace
}  // namespace rondo
