#include <gtest/gtest.h>

#include <bit>
#include <thread>

#include "tests/counting_allocator.hpp"
#include "tests/model/sampled_attention.hpp"

namespace rondo {
namespace {

using testing::Pattern;
using testing::SampledAttention;

/// As the paper has it: nothing is always chosen, and nothing but lines.
PrefillAttention as_printed(double alpha) {
    return {
        .method = PrefillAttention::Method::loopserve, .alpha = alpha, .first_keys = 0, .near_keys = 0, .blocks = 0};
}

Lines choose(const SampledAttention& in, double alpha,
             PrefillAttention::Overlap overlap = PrefillAttention::Overlap::exact) {
    Lines lines;
    PrefillAttention settings = as_printed(alpha);
    settings.overlap = overlap;
    make_prefill_sparsity(settings)->select(in.chunk(), in.sampled(), lines);
    return lines;
}

Lines choose_for_each_row(const SampledAttention& in, double alpha) {
    Lines lines;
    PrefillAttention settings = as_printed(alpha);
    settings.alpha_of = PrefillAttention::AlphaOf::each_row;
    make_prefill_sparsity(settings)->select(in.chunk(), in.sampled(), lines);
    return lines;
}

bool same(const Lines& a, const Lines& b) {
    return a.columns == b.columns && a.bands == b.bands && a.blocks == b.blocks && a.dense_rows == b.dense_rows;
}

/// The entries of each line among the sampled rows as bits, bands before columns; there are 64 entries at most.
std::vector<uint64_t> lines_as_bits(const SampledAttention& in) {
    const int64_t blocks = in.chunk().blocks();
    std::vector<uint64_t> lines(static_cast<size_t>(blocks + in.keys()));
    int entry = 0;
    for (size_t row = 0; row < in.rows.size(); ++row) {
        for (int64_t key = 0; key <= in.key_of(row); ++key, ++entry) {
            lines[static_cast<size_t>(in.block_of(in.key_of(row)) - in.block_of(key))] |= uint64_t{1} << entry;
            lines[static_cast<size_t>(blocks + key)] |= uint64_t{1} << entry;
        }
    }
    EXPECT_LE(entry, 64);
    return lines;
}

/// The fewest entries that any lines cover that hold `mass`, band 0 and column 0 among them, by trying all.
int64_t fewest_entries(const SampledAttention& in, double mass) {
    std::vector<double> weights;
    for (size_t row = 0; row < in.rows.size(); ++row) {
        for (int64_t key = 0; key <= in.key_of(row); ++key) weights.push_back(in.weight(row, key));
    }
    const auto mass_of = [&](uint64_t entries) {
        double sum = 0.0;
        for (; entries != 0; entries &= entries - 1) sum += weights[static_cast<size_t>(std::countr_zero(entries))];
        return sum;
    };
    const auto lines = lines_as_bits(in);
    const auto column_0 = static_cast<size_t>(in.chunk().blocks());
    std::vector<uint64_t> unions{lines[0] | lines[column_0]};
    for (size_t line = 1; line < lines.size(); ++line) {
        if (line == column_0) continue;
        const size_t known = unions.size();
        for (size_t i = 0; i < known; ++i) unions.push_back(unions[i] | lines[line]);
    }
    std::ranges::sort(unions, {}, [](uint64_t entries) { return std::popcount(entries); });
    return std::popcount(*std::ranges::find_if(unions, [&](uint64_t each) { return mass_of(each) >= mass; }));
}

TEST(LoopServeLines, HoldAlphaOfTheSampledRowsTogetherOrOfEach) {
    const testing::Shape shapes[] = {{.first_row = 0, .rows = 1, .sampled = 64},
                                     {.first_row = 0, .rows = 2, .sampled = 64},
                                     {.first_row = 0, .rows = 300, .sampled = 40},
                                     {.first_row = 7, .rows = 90, .sampled = 1},
                                     {.first_row = 700, .rows = 2, .sampled = 2},
                                     {.first_row = 900, .rows = 128, .sampled = 24},
                                     {.first_row = 250, .rows = 64, .sampled = 64, .block_width = 5}};
    uint32_t seed = 0;
    for (const Pattern pattern : testing::patterns) {
        for (const testing::Shape& shape : shapes) {
            const auto in = testing::sampled_attention(shape, pattern, ++seed);
            for (const double alpha : {0.0, 0.3, 0.955, 0.99, 0.9999}) {
                const Lines lines = choose(in, alpha);
                EXPECT_GE(covered_by(in, lines).mass, alpha * in.total() * (1.0 - 1e-6))
                    << "seed " << seed << " alpha " << alpha;
                EXPECT_EQ(lines.bands.at(0), 0);
                EXPECT_EQ(lines.columns.at(0), 0);
                EXPECT_EQ(lines.dense_rows, 0);
                const Lines by_row = choose_for_each_row(in, alpha);
                EXPECT_GE(covered_by(in, by_row).least_of_a_row, alpha - 1e-5) << "seed " << seed << " alpha " << alpha;
                EXPECT_EQ(by_row.dense_rows, 0);
            }
        }
    }
}

TEST(LoopServeLines, TheBestBlocksStandBesideThem) {
    const auto in = testing::sampled_attention({.first_row = 500, .rows = 60, .sampled = 60}, Pattern::local, 8);
    const int64_t blocks = in.chunk().blocks(), first = in.block_of(in.first_row);
    std::mt19937 random(5);
    std::vector<float> scores(static_cast<size_t>((blocks - first) * blocks));
    for (float& score : scores) score = std::normal_distribution<float>()(random);
    PrefillAttention settings = as_printed(0.8);
    settings.blocks = 3;
    Lines lines;
    SampledRows sampled = in.sampled();
    sampled.block_scores = scores;
    make_prefill_sparsity(settings)->select(in.chunk(), sampled, lines);
    EXPECT_TRUE(std::ranges::is_sorted(lines.blocks));
    for (int64_t row = first; row < blocks; ++row) {
        const auto score = [&](int64_t block) { return scores[static_cast<size_t>((row - first) * blocks + block)]; };
        const auto in_band = [&](int64_t block) { return std::ranges::count(lines.bands, row - block) > 0; };
        std::vector<int32_t> taken;
        for (const Lines::Block& each : lines.blocks) {
            if (each.row_block == row) taken.push_back(each.key_block);
        }
        int64_t open = 0;
        for (int64_t block = 0; block < row; ++block) {
            if (in_band(block)) {
                EXPECT_EQ(std::ranges::count(taken, block), 0) << "a band has it";
                continue;
            }
            ++open;
            if (std::ranges::count(taken, block) > 0) continue;
            for (const int32_t each : taken) EXPECT_GE(score(each), score(block));
        }
        EXPECT_EQ(std::ssize(taken), std::min<int64_t>(3, open)) << row;
    }
    scores[0] = std::numeric_limits<float>::quiet_NaN();
    make_prefill_sparsity(settings)->select(in.chunk(), sampled, lines);
    EXPECT_EQ(lines.dense_rows, in.row_count) << "means that are no numbers choose nothing";
}

/// All 64 rows of a chunk behind 640 keys, in full blocks, with whatever weights.
template <class Weight>
SampledAttention weighed(const Weight& weight) {
    auto in = testing::sampled_attention({.first_row = 640, .rows = 64, .sampled = 64}, Pattern::uniform, 1);
    in.block_begin.clear();
    for (int32_t key = 0; key <= in.keys(); key += 16) in.block_begin.push_back(key);
    for (size_t row = 0; row < in.rows.size(); ++row) {
        for (int64_t key = 0; key <= in.key_of(row); ++key) {
            in.weights[row * static_cast<size_t>(in.keys()) + static_cast<size_t>(key)] =
                static_cast<float>(weight(in.block_of(in.key_of(row)) - in.block_of(key), key));
        }
    }
    return in;
}

TEST(LoopServeLines, StopOnceEachRowHasItsShare) {
    const testing::Shape shape{.first_row = 2000, .rows = 64, .sampled = 64};
    const auto in = testing::sampled_attention(shape, Pattern::uniform, 9);
    for (const double alpha : {0.25, 0.5, 0.9})
        EXPECT_LE(covered_by(in, choose_for_each_row(in, alpha)).mass, (alpha + 0.05) * in.total()) << alpha;
}

TEST(LoopServeLines, LeaveAloneWhatOnlyRowsThatHaveEnoughLookAt) {
    // Key 200 is enough for all rows but the first one, which wants band 20. Key 401 and band 5 are worth more than
    // that to all the others together.
    auto in = weighed([](int64_t band, int64_t key) {
        return key == 200 ? 0.8 : key == 401 || band == 5 ? 0.01 : 0.0;
    });
    std::fill_n(in.weights.begin(), static_cast<size_t>(in.keys()), 0.0F);
    std::fill_n(in.weights.begin() + 320, 16, 1.0F / 16.0F);  // of row 640, so 20 blocks back
    const Lines lines = choose_for_each_row(in, 0.75);
    EXPECT_TRUE(std::ranges::count(lines.columns, 200) == 1);
    EXPECT_EQ(std::ranges::count(lines.columns, 401), 0);
    EXPECT_EQ(std::ranges::count(lines.bands, 5), 0);
}

TEST(LoopServeLines, FindWhatOneRowAloneLooksAtWhereEachRowCounts) {
    auto in = weighed([](int64_t band, int64_t) { return band == 0 ? 0.05 : 0.0001; });
    const size_t keys = static_cast<size_t>(in.keys());
    std::fill_n(in.weights.begin(), keys, 0.0F);
    in.weights[321] = 1.0F;
    const auto takes = [](const Lines& lines) { return std::ranges::count(lines.columns, 321) > 0; };
    EXPECT_FALSE(takes(choose(in, 0.8)));
    EXPECT_TRUE(takes(choose_for_each_row(in, 0.8)));
}

TEST(LoopServeLines, AreNearTheBestChoice) {
    for (const Pattern pattern : testing::patterns) {
        double ratios = 0.0;
        int cases = 0;
        for (uint32_t seed = 0; seed < 8; ++seed) {
            const testing::Shape shape{.first_row = 3 + seed % 3, .rows = 7 - seed % 3, .sampled = 5, .block_width = 4};
            const auto in = testing::sampled_attention(shape, pattern, seed);
            for (const double alpha : {0.8, 0.955}) {
                const int64_t best = fewest_entries(in, alpha * in.total());
                const int64_t found = covered_by(in, choose(in, alpha)).entries;
                EXPECT_GE(found, best);
                ratios += static_cast<double>(found) / static_cast<double>(best);
                ++cases;
            }
        }
        EXPECT_LE(ratios / cases, 1.1) << "pattern " << static_cast<int>(pattern);
    }
}

TEST(LoopServeLines, CoverOneColumnOrOneBandWithThatAlone) {
    const testing::Shape shape{.first_row = 600, .rows = 128, .sampled = 32};
    const auto column = testing::sampled_attention(shape, Pattern::one_column, 5);
    const Lines columns = choose(column, 0.955);
    EXPECT_EQ(columns.columns, (std::vector<int32_t>{0, static_cast<int32_t>(column.keys() / 3)}));
    EXPECT_EQ(columns.bands, (std::vector<int32_t>{0}));
    const Lines bands = choose(testing::sampled_attention(shape, Pattern::one_band, 5), 0.955);
    EXPECT_EQ(bands.bands, (std::vector<int32_t>{0, 1}));
    EXPECT_LE(bands.columns.size(), 3U) << "the key of a very short block is cheaper on its own";
}

TEST(LoopServeLines, DoNotCountForAColumnWhatABandHolds) {
    // Band 1 makes the keys shortly before a row look heavier than any of the ten that matter besides.
    const auto in = weighed([](int64_t band, int64_t key) {
        return band == 1 ? 0.05 : key % 50 == 20 && key < 500 ? 0.015 : 0.0001;
    });
    Lines lines = choose(in, 0.93);
    EXPECT_EQ(lines.bands, (std::vector<int32_t>{0, 1}));
    // Columns that only band 1 meets are as cheap as the band itself and may be taken in the same batch.
    std::erase_if(lines.columns, [](int32_t key) { return key >= 672 && key < 688; });
    EXPECT_EQ(lines.columns, (std::vector<int32_t>{0, 20, 70, 120, 170, 220, 270, 320, 370, 420, 470}));
}

TEST(LoopServeLines, DoNotCountForABandWhatAColumnHolds) {
    // Two keys make each band that meets them look heavier than the one that matters besides.
    const auto in = weighed([](int64_t band, int64_t key) {
        return key == 200 || key == 401 ? 0.35 : band == 5 ? 0.01 : 0.0001;
    });
    const Lines lines = choose(in, 0.9);
    EXPECT_EQ(lines.bands, (std::vector<int32_t>{0, 5}));
    EXPECT_EQ(lines.columns, (std::vector<int32_t>{0, 200, 401}));
}

TEST(LoopServeLines, StopOnceAlphaIsReachedThoughAllLinesAreAlike) {
    const testing::Shape shape{.first_row = 2000, .rows = 64, .sampled = 64};
    const auto in = testing::sampled_attention(shape, Pattern::uniform, 9);
    for (const double alpha : {0.25, 0.5, 0.9}) {
        EXPECT_LE(covered_by(in, choose(in, alpha)).mass, (alpha + 0.02) * in.total()) << alpha;
    }
}

TEST(LoopServeLines, AlphaOneIsEverything) {
    for (const auto overlap : {PrefillAttention::Overlap::exact, PrefillAttention::Overlap::literal}) {
        const auto in = testing::sampled_attention({.first_row = 90, .rows = 64, .sampled = 9}, Pattern::peaked, 2);
        const Coverage all = coverage(in.chunk(), choose(in, 1.0, overlap));
        EXPECT_EQ(all.covered, all.causal);
    }
}

TEST(LoopServeLines, AlphaNearOneHoldsAllThatWeighsAnything) {
    for (const Pattern pattern : testing::patterns) {
        const auto in = testing::sampled_attention({.first_row = 400, .rows = 64, .sampled = 16}, pattern, 21);
        EXPECT_GE(covered_by(in, choose(in, 1.0 - 1e-12)).mass, in.total() * (1.0 - 1e-7))
            << "pattern " << static_cast<int>(pattern);
    }
}

TEST(LoopServeLines, AreDenseWhenRoundingHidesWhatIsMissing) {
    SampledAttention in{.first_row = 160, .row_count = 48, .rows = {3, 21, 37}};
    for (int32_t key = 0; key <= in.keys(); key += 16) in.block_begin.push_back(key);
    in.weights.assign(3 * static_cast<size_t>(in.keys()), 0.0F);
    const auto weight = [&](int64_t row, int64_t key) -> float& {
        return in.weights[static_cast<size_t>(row * in.keys() + key)];
    };
    for (int64_t key = 144; key < 160; ++key) weight(0, key) = 0.0625F;  // band 1, which takes these keys' columns to 0
    weight(1, 181) = 1.0F;                                               // band 0
    weight(1, 150) = 1e-9F;                                              // lost in the sums of its column and of band 2
    weight(2, 170) = 1.0F;                                               // band 2, taken as a column
    EXPECT_EQ(choose(in, 0.999).dense_rows, 0);
    EXPECT_EQ(choose(in, 1.0 - 1e-12).dense_rows, in.row_count);
}

// Every key weighs more than four thirds of the next: each batch is one key's lines, for as long as there are batches.
TEST(LoopServeLines, EndWhenEveryBatchIsOneKey) {
    auto in =
        testing::sampled_attention({.first_row = 199, .rows = 1, .sampled = 1, .block_width = 1}, Pattern::uniform, 4);
    double weight = 0.3;
    for (float& each : in.weights) each = static_cast<float>(weight *= 0.7);
    const Lines lines = choose(in, 1.0 - 1e-12);
    EXPECT_GE(covered_by(in, lines).mass, in.total() * (1.0 - 1e-7));
    const Lines few = choose(in, 1.0 - 1e-3);
    EXPECT_EQ(covered_by(in, few).entries, 21) << "0.7^20 is the first below a thousandth; the last key is band 0";
}

TEST(LoopServeLines, AreTheSameForTheSameWeightsOnEveryThread) {
    const testing::Shape shape{.first_row = 500, .rows = 200, .sampled = 64};
    const auto in = testing::sampled_attention(shape, Pattern::sink_and_needles, 1);
    const Lines first = choose(in, 0.955);
    choose(testing::sampled_attention({.first_row = 9, .rows = 30, .sampled = 8}, Pattern::peaked, 2), 0.9);
    EXPECT_TRUE(same(first, choose(in, 0.955))) << "after another head";
    Lines elsewhere;
    std::thread([&] { elsewhere = choose(in, 0.955); }).join();
    EXPECT_TRUE(same(first, elsewhere));
}

TEST(LoopServeLines, ChoosingAllocatesNothingOnceWarm) {
    const auto in =
        testing::sampled_attention({.first_row = 500, .rows = 200, .sampled = 64}, Pattern::sink_and_needles, 1);
    const auto method = make_prefill_sparsity({.method = PrefillAttention::Method::loopserve});
    Lines lines;
    method->select(in.chunk(), in.sampled(), lines);
    const int64_t before = testing::allocations();
    method->select(in.chunk(), in.sampled(), lines);
    EXPECT_EQ(testing::allocations() - before, 0);
}

/// Two rows over four keys, each its own block, so that bands are diagonals. Worked by hand from the paper's listing.
SampledAttention two_rows() {
    return {.first_row = 2,
            .row_count = 2,
            .block_begin = {0, 1, 2, 3, 4},
            .rows = {0, 1},
            .weights = {0.125F, 0.125F, 0.75F, 0.0F, 0.125F, 0.125F, 0.25F, 0.5F}};
}

TEST(LoopServeLiteralLines, FollowThePapersBookkeeping) {
    // Band 0 (1.25 over 2 entries), then column 2: 1 less the 0.75 that band 0 holds at most, over 2 - 1 entries.
    const Lines lines = choose(two_rows(), 0.75, PrefillAttention::Overlap::literal);
    EXPECT_EQ(lines.bands, (std::vector<int32_t>{0}));
    EXPECT_EQ(lines.columns, (std::vector<int32_t>{0, 2}));
}

TEST(LoopServeLiteralLines, TakeEverythingWhenTheirSumNeverGetsThere) {
    // From 1.5 on every line seems to lose mass: the greatest weights of what is chosen are taken off it.
    const Lines lines = choose(two_rows(), 0.8, PrefillAttention::Overlap::literal);
    EXPECT_EQ(lines.bands, (std::vector<int32_t>{0, 1, 2, 3}));
    EXPECT_EQ(lines.columns, (std::vector<int32_t>{0, 1, 2, 3}));
    EXPECT_EQ(covered_by(two_rows(), choose(two_rows(), 0.8)).entries, 5) << "of seven";
}

TEST(LoopServeLiteralLines, EndOnEveryPattern) {
    uint32_t seed = 0;
    for (const Pattern pattern : testing::patterns) {
        const auto in = testing::sampled_attention({.first_row = 300, .rows = 100, .sampled = 32}, pattern, ++seed);
        const Lines lines = choose(in, 0.955, PrefillAttention::Overlap::literal);
        EXPECT_EQ(lines.bands.at(0), 0);
        EXPECT_EQ(lines.columns.at(0), 0);
        EXPECT_LE(lines.columns.size(), static_cast<size_t>(in.keys()));
        EXPECT_TRUE(same(lines, choose(in, 0.955, PrefillAttention::Overlap::literal)));
    }
}

}  // namespace
}  // namespace rondo
