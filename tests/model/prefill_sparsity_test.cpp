#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "tests/model/method_keys.hpp"
#include "tests/model/methods_where.hpp"
#include "tests/model/sampled_attention.hpp"

namespace rondo {
namespace {

using PrefillMethod = PrefillAttention::Method;

const std::vector<PrefillMethod> prefill_methods =
    testing::methods_where<PrefillMethod>(prefill_method_rows, testing::any_method);

template <class T>
void add_some(std::vector<T>& list, uint32_t below, int one_in, std::mt19937& random) {
    for (uint32_t item = 0; item < below; ++item) {
        if (random() % static_cast<uint32_t>(one_in) == 0) list.push_back(static_cast<T>(item));
    }
}

Lines random_lines(const ChunkShape& chunk, std::mt19937& random) {
    Lines lines;
    add_some(lines.columns, static_cast<uint32_t>(chunk.keys()), 5, random);
    add_some(lines.bands, static_cast<uint32_t>(chunk.blocks()), 4, random);
    if (lines.bands.empty() || lines.bands[0] != 0) lines.bands.insert(lines.bands.begin(), 0);
    const auto first = static_cast<int32_t>(chunk.block_of(chunk.first_row));
    for (int32_t row = first; row < chunk.blocks(); ++row) {
        for (int32_t key = 0; key <= row; ++key) {
            if (random() % 6 == 0) lines.blocks.push_back({.row_block = row, .key_block = key});
        }
    }
    lines.dense_rows = random() % 2 == 0 ? 0 : static_cast<int64_t>(random() % static_cast<uint32_t>(chunk.rows + 1));
    return lines;
}

TEST(ChunkShape, FindsTheBlockOfEveryKey) {
    const auto in =
        testing::sampled_attention({.first_row = 100, .rows = 60, .sampled = 1}, testing::Pattern::uniform, 3);
    int64_t block = 0;
    for (int64_t key = 0; key < in.keys(); ++key) {
        if (in.block_begin[static_cast<size_t>(block) + 1] == key) ++block;
        EXPECT_EQ(in.chunk().block_of(key), block) << key;
    }
}

TEST(Coverage, EqualsANaiveCount) {
    for (uint32_t seed = 0; seed < 60; ++seed) {
        std::mt19937 random(seed);
        const auto first_row = static_cast<int64_t>(seed % 3 == 0 ? 0 : random() % 150);
        auto in = testing::sampled_attention({.first_row = first_row, .rows = 1 + static_cast<int64_t>(random() % 90)},
                                             testing::Pattern::uniform, seed);
        in.rows.resize(static_cast<size_t>(in.row_count));
        std::iota(in.rows.begin(), in.rows.end(), 0);
        in.weights.assign(in.rows.size() * static_cast<size_t>(in.keys()), 0.0F);
        Lines lines = random_lines(in.chunk(), random);
        const Coverage counted = coverage(in.chunk(), lines);
        EXPECT_EQ(counted.covered, covered_by(in, lines).entries) << "seed " << seed;
        int64_t attended = 0;
        for (int64_t row = 0; row < in.row_count; ++row)
            attended += std::ranges::count(attended_keys(in.chunk(), lines, row), 1);
        EXPECT_EQ(attended, counted.covered) << "seed " << seed;
        lines.dense_rows = in.row_count;
        EXPECT_EQ(counted.causal, covered_by(in, lines).entries) << "seed " << seed;
    }
}

TEST(SampleRows, DrawsOneRowOfEveryStretchAndTheLast) {
    for (const int64_t rows : {65, 100, 128, 511, 512, 4096}) {
        for (uint64_t seed = 0; seed < 20; ++seed) {
            const auto sample = sample_rows(rows, 64, seed);
            ASSERT_EQ(sample.size(), 64U);
            for (int64_t i = 0; i < 64; ++i) {
                EXPECT_GE(sample[static_cast<size_t>(i)], i * rows / 64);
                EXPECT_LT(sample[static_cast<size_t>(i)], (i + 1) * rows / 64);
            }
            EXPECT_EQ(sample.back(), rows - 1);
        }
    }
}

TEST(SampleRows, TakesAllRowsWhenThereAreNoMore) {
    EXPECT_EQ(sample_rows(3, 64, 7), (std::vector<int32_t>{0, 1, 2}));
    EXPECT_EQ(sample_rows(3, 3, 7), (std::vector<int32_t>{0, 1, 2}));
    EXPECT_EQ(sample_rows(9, 1, 7), (std::vector<int32_t>{8}));
    EXPECT_TRUE(sample_rows(0, 64, 7).empty());
    EXPECT_TRUE(sample_rows(9, 0, 7).empty());
}

TEST(SampleRows, DependsOnTheSeedAloneAndReachesEveryRow) {
    std::set<int32_t> seen;
    for (uint64_t seed = 0; seed < 200; ++seed) {
        const auto sample = sample_rows(128, 16, seed);
        EXPECT_EQ(sample, sample_rows(128, 16, seed));
        seen.insert(sample.begin(), sample.end());
    }
    EXPECT_EQ(seen.size(), 15 * 8 + 1U);  // of the last stretch only the last row
}

TEST(PrefillSparsityRegistry, MakesEveryMethodButDense) {
    EXPECT_EQ(make_prefill_sparsity({.method = PrefillMethod::dense}), nullptr);
    for (const PrefillMethod method : prefill_methods) {
        EXPECT_NE(make_prefill_sparsity({.method = method}), nullptr) << row_of(method).name;
    }
}

TEST(PrefillSparsityRegistry, MethodsAskForTheRowsTheyNeed) {
    const auto sampling = [](PrefillAttention settings) { return make_prefill_sparsity(settings)->sampling(); };
    EXPECT_EQ(sampling({.method = PrefillMethod::loopserve, .sample_rows = 48}).rows, 48);
    EXPECT_EQ(sampling({.method = PrefillMethod::loopserve, .sample_rows = 48}).all_up_to, 0);
    EXPECT_EQ(sampling({.method = PrefillMethod::loopserve}).rows, 64);
    EXPECT_EQ(sampling({.method = PrefillMethod::loopserve}).all_up_to, 256) << "short chunks show all of their rows";
    EXPECT_EQ(sampling({.method = PrefillMethod::loopserve, .blocks = 4}).blocks, true);
    EXPECT_TRUE(sampling({.method = PrefillMethod::loopserve}).spread);
    EXPECT_EQ(sampling({.method = PrefillMethod::loopserve, .alpha = 1.0}).rows, 0) << "it will attend to everything";
    EXPECT_EQ(sampling({.method = PrefillMethod::a_shape}).rows, 0);
    EXPECT_EQ(sampling({.method = PrefillMethod::tri_shape}).rows, 0);
    for (const PrefillMethod method : {PrefillMethod::minference, PrefillMethod::flexprefill}) {
        EXPECT_EQ(sampling({.method = method}).rows, method == PrefillMethod::flexprefill ? 128 : 64);
        EXPECT_EQ(sampling({.method = method, .sample_rows = 20}).rows, 20);
        EXPECT_FALSE(sampling({.method = method}).spread);
        EXPECT_EQ(sampling({.method = method}).blocks, method == PrefillMethod::flexprefill);
    }
}

class EveryPrefillMethod : public ::testing::TestWithParam<PrefillMethod> {
protected:
    /// What a method chooses of some attention, as text.
    static std::string chosen(const PrefillAttention& settings, testing::Shape shape, testing::Pattern pattern,
                              uint32_t seed) {
        const auto method = make_prefill_sparsity(settings);
        shape.sampled = method->sampling().rows;
        shape.spread = method->sampling().spread;
        const auto in = testing::sampled_attention(shape, pattern, seed);
        const int64_t blocks = in.chunk().blocks(), row_blocks = blocks - in.block_of(in.first_row);
        const std::vector<float> scores(static_cast<size_t>(row_blocks * blocks), 0.5F);
        SampledRows sampled = in.sampled();
        sampled.block_scores = scores;
        Lines lines;
        method->select(in.chunk(), sampled, lines);
        std::ostringstream text;
        text << "\ncolumns";
        for (const int32_t column : lines.columns) text << ' ' << column;
        text << "\nbands";
        for (const int32_t band : lines.bands) text << ' ' << band;
        text << "\nblocks";
        for (const Lines::Block& block : lines.blocks) text << ' ' << block.row_block << ',' << block.key_block;
        text << "\nrows " << lines.dense_rows;
        return text.str();
    }

    /// All that the method says and chooses, as text.
    static std::string behaviour(PrefillAttention settings) {
        settings.method = GetParam();
        const PrefillSparsity::Sampling sampling = make_prefill_sparsity(settings)->sampling();
        std::ostringstream text;
        text << sampling.rows << ' ' << sampling.all_up_to << ' ' << sampling.spread << ' ' << sampling.blocks;
        uint32_t seed = 0;
        for (const auto pattern : testing::patterns)
            text << chosen(settings, {.first_row = 333, .rows = 100}, pattern, ++seed);
        return text.str();
    }
};

TEST_P(EveryPrefillMethod, KeepsToTheClaimsOfItsRow) {
    const MethodRow& row = row_of(GetParam());
    const auto method = make_prefill_sparsity({.method = GetParam()});
    EXPECT_EQ(method->sampling().rows > 0, row.scores);
    if (!row.all_is_dense) return;
    const auto all = make_prefill_sparsity({.method = GetParam(), .alpha = 1.0, .density = 1.0});
    const auto in = testing::sampled_attention(
        {.first_row = 333, .rows = 100, .sampled = all->sampling().rows, .spread = all->sampling().spread},
        testing::Pattern::peaked, 1);
    Lines lines;
    all->select(in.chunk(), in.sampled(), lines);
    const Coverage covered = coverage(in.chunk(), lines);
    EXPECT_EQ(covered.covered, covered.causal);
}

/// What `rondo eval` lets set and what the reference says depend on it.
TEST_P(EveryPrefillMethod, HeedsTheKeysOfItsRowAndNoOthers) {
    // Those without which no other key is refused.
    const std::vector<std::string> base = {"pipeline.prefill.attention.first_keys=0",
                                           "pipeline.prefill.attention.near_keys=0"};
    const std::string unchanged = behaviour(settings_from_yaml("", "test", base).value().pipeline.prefill.attention);
    std::map<std::string, bool> heeded;
    for (const auto& [key, settings] : testing::changed_keys("pipeline.prefill.attention.", base))
        heeded[key] |= behaviour(settings.pipeline.prefill.attention) != unchanged;
    heeded["min_tokens"] = true;    // the runtime's, of all methods
    heeded.erase("patterns_file");  // which the runtime reads: head_patterns_test
    for (const auto& [key, is_heeded] : heeded)
        EXPECT_EQ(is_heeded, heeds(row_of(GetParam()), key)) << row_of(GetParam()).name << ": " << key;
}

/// Scratch memory is the thread's; nothing in it changes a choice.
TEST_P(EveryPrefillMethod, ChoosesTheSameOnAThreadThatHasChosenNothing) {
    uint32_t seed = 0;
    for (const auto pattern : testing::patterns) {
        chosen({.method = GetParam(), .blocks = 2}, {.first_row = 500, .rows = 200}, pattern, ++seed);
        const auto choose = [&] {
            return chosen({.method = GetParam(), .blocks = 2}, {.first_row = 333, .rows = 100}, pattern, seed);
        };
        const std::string here = choose();
        std::string elsewhere;
        std::thread([&] { elsewhere = choose(); }).join();
        EXPECT_EQ(here, elsewhere) << seed;
    }
}

TEST_P(EveryPrefillMethod, MakesSoundLinesWhateverTheAttention) {
    const auto method = make_prefill_sparsity({.method = GetParam()});
    Lines lines{.columns = {99}, .bands = {99}, .blocks = {{.row_block = 9, .key_block = 9}}, .dense_rows = 99};
    const testing::Shape shapes[] = {{.first_row = 0, .rows = 1},
                                     {.first_row = 0, .rows = 70},
                                     {.first_row = 1, .rows = 2},
                                     {.first_row = 333, .rows = 100}};
    uint32_t seed = 0;
    for (const auto pattern : testing::patterns) {
        for (testing::Shape asked : shapes) {
            asked.sampled = method->sampling().rows;
            asked.spread = method->sampling().spread;
            const auto in = testing::sampled_attention(asked, pattern, ++seed);
            method->select(in.chunk(), in.sampled(), lines);
            const auto sound = [](const std::vector<int32_t>& list, int64_t end) {
                return std::ranges::adjacent_find(list, std::greater_equal{}) == list.end() &&
                       (list.empty() || (list.front() >= 0 && list.back() < end));
            };
            EXPECT_TRUE(sound(lines.columns, in.keys())) << seed;
            EXPECT_TRUE(sound(lines.bands, in.chunk().blocks())) << seed;
            ASSERT_FALSE(lines.bands.empty()) << seed;
            EXPECT_EQ(lines.bands[0], 0) << seed;
            EXPECT_TRUE(lines.blocks.empty()) << seed;
            EXPECT_LE(lines.dense_rows, in.row_count) << seed;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Methods, EveryPrefillMethod, ::testing::ValuesIn(prefill_methods),
                         [](const auto& info) { return std::string(row_of(info.param).name); });

TEST(PrefillSparsity, IsDenseWhenTheWeightsAreNoNumbers) {
    for (const PrefillMethod method :
         {PrefillMethod::loopserve, PrefillMethod::minference, PrefillMethod::flexprefill}) {
        for (const float broken : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
            auto in =
                testing::sampled_attention({.first_row = 50, .rows = 80, .sampled = 64}, testing::Pattern::peaked, 1);
            in.weights[static_cast<size_t>(in.keys()) + 5] = broken;
            Lines lines;
            make_prefill_sparsity({.method = method})->select(in.chunk(), in.sampled(), lines);
            const Coverage all = coverage(in.chunk(), lines);
            EXPECT_EQ(all.covered, all.causal) << static_cast<int>(method);
        }
    }
}

}  // namespace
}  // namespace rondo
