#include "model/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "tests/counting_allocator.hpp"

namespace rondo {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_logits(uint32_t seed, size_t count, float spread = 2.0F) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0F, spread);
    std::vector<float> logits(count);
    for (float& logit : logits) logit = normal(random);
    return logits;
}

int32_t next_of(Sampler& sampler, std::vector<float> logits) {
    return sampler.next(logits).id;
}

/// The penalties of one logit, as the header states them.
double penalised(double logit, const SamplingParams& params, bool in_context, int in_answer, double bias) {
    if (in_context) logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    return logit - params.frequency_penalty * in_answer - (in_answer > 0 ? params.presence_penalty : 0.0F) + bias;
}

/// Probabilities by sorting everything, in double.
std::vector<double> naive_distribution(const std::vector<float>& logits, const SamplingParams& params) {
    std::vector<size_t> order(logits.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    if (params.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(params.top_k)));
    std::vector<double> ranked;
    for (const size_t id : order)
        ranked.push_back(std::exp((double{logits[id]} - logits[order[0]]) / params.temperature));
    const double all = std::accumulate(ranked.begin(), ranked.end(), 0.0);
    std::vector<double> result(logits.size());
    double before = 0.0, kept = 0.0;
    for (size_t rank = 0; rank < order.size(); ++rank) {
        const bool in_nucleus = rank == 0 || before < params.top_p * all;
        before += ranked[rank];
        if (in_nucleus && ranked[rank] >= params.min_p) kept += result[order[rank]] = ranked[rank];
    }
    for (double& each : result) each /= kept;
    return result;
}

/// Draws and compares: nothing outside the support, and a chi-square that a right sampler exceeds less than once in a
/// million (rare tokens put together until 10 are expected).
void expect_distribution(const std::vector<float>& logits, SamplingParams params, uint64_t seed) {
    params.seed = seed;
    const auto expected = naive_distribution(logits, params);
    constexpr int draws = 8000;
    Sampler sampler(params, static_cast<int64_t>(logits.size()));
    std::vector<int> counts(logits.size());
    for (int i = 0; i < draws; ++i) ++counts[static_cast<size_t>(next_of(sampler, logits))];
    double chi_square = 0.0, rare_expected = 0.0, rare_count = 0.0;
    int bins = 0;
    for (size_t id = 0; id < logits.size(); ++id) {
        if (expected[id] == 0.0) {
            ASSERT_EQ(counts[id], 0) << "token " << id << " was cut off, seed " << seed;
        }
        rare_expected += expected[id] * draws;
        rare_count += counts[id];
        if (rare_expected < 10.0) continue;
        chi_square += (rare_count - rare_expected) * (rare_count - rare_expected) / rare_expected;
        rare_expected = rare_count = 0.0;
        ++bins;
    }
    const double freedom = std::max(bins - 1, 1);
    EXPECT_LT(chi_square, freedom + 5.0 * std::sqrt(2.0 * freedom) + 15.0) << "bins " << bins << " seed " << seed;
}

TEST(Sampler, DrawsFromTheDistributionItIsGiven) {
    for (const size_t vocabulary : {size_t{2}, size_t{65}, size_t{500}}) {
        SCOPED_TRACE("vocabulary " + std::to_string(vocabulary));
        const auto logits = random_logits(7, vocabulary);
        for (const float temperature : {0.3F, 1.0F, 1.7F}) {
            expect_distribution(logits, {.temperature = temperature}, 1);
            expect_distribution(logits, {.temperature = temperature, .top_k = 2}, 2);
            expect_distribution(logits, {.temperature = temperature, .top_p = 0.8F}, 3);
            expect_distribution(logits, {.temperature = temperature, .min_p = 0.1F}, 4);
        }
        const int top_k = std::min<int>(40, static_cast<int>(vocabulary));
        expect_distribution(logits, {.temperature = 1.2F, .top_k = top_k, .top_p = 0.9F, .min_p = 0.02F}, 5);
        expect_distribution(logits, {.temperature = 1.0F, .top_k = static_cast<int>(vocabulary)}, 6);
        expect_distribution(logits, {.temperature = 1.0F, .top_p = 0.0F}, 7);
        expect_distribution(logits, {.temperature = 1.0F, .min_p = 1.0F}, 8);
    }
}

TEST(Sampler, CutsKeepExactlyTheTokensThatSortingWould) {
    for (uint32_t seed = 1; seed <= 100; ++seed) {
        std::mt19937 random(seed);
        const size_t vocabulary = 1 + random() % 700;
        auto logits = random_logits(seed, vocabulary, 0.5F);
        // Rounded, so that many are equal and the cut falls among them.
        if (seed % 2 == 0)
            for (float& logit : logits) logit = std::round(logit * 2) / 2;
        SamplingParams params{.temperature = 1.0F, .seed = seed};
        if (random() % 2 == 0) params.top_k = static_cast<int>(random() % (vocabulary + 1));
        if (random() % 2 == 0) params.top_p = static_cast<float>(random() % 100) / 100.0F + 0.003F;
        if (random() % 2 == 0) params.min_p = static_cast<float>(random() % 100) / 100.0F + 0.003F;
        const auto expected = naive_distribution(logits, params);
        const auto rarest = std::ranges::min(expected, {}, [](double p) { return p == 0.0 ? 1.0 : p; });
        Sampler sampler(params, static_cast<int64_t>(vocabulary));
        std::vector<bool> drawn(vocabulary);
        const int draws = std::min(3000, static_cast<int>(20.0 / rarest));
        for (int i = 0; i < draws; ++i) drawn[static_cast<size_t>(next_of(sampler, logits))] = true;
        for (size_t id = 0; id < vocabulary; ++id) {
            if (expected[id] == 0.0) {
                ASSERT_FALSE(drawn[id]) << "seed " << seed << " token " << id;
            }
            if (expected[id] * draws > 18.0) {
                ASSERT_TRUE(drawn[id]) << "seed " << seed << " token " << id;
            }
        }
    }
}

TEST(Sampler, GreedyTakesTheLargestAndOfEqualsTheFirst) {
    for (uint32_t seed = 1; seed <= 300; ++seed) {
        auto logits = random_logits(seed, 1 + seed * 7 % 400);
        if (seed % 3 == 0)
            for (float& logit : logits) logit = std::round(logit);
        if (seed % 5 == 0) logits[seed % logits.size()] = nan;
        size_t best = 0;
        for (size_t i = 0; i < logits.size(); ++i)
            if (std::isnan(logits[best]) || logits[i] > logits[best]) best = i;
        Sampler sampler({}, static_cast<int64_t>(logits.size()));
        ASSERT_EQ(next_of(sampler, logits), static_cast<int32_t>(best)) << "seed " << seed;
    }
}

TEST(Sampler, SmallTemperaturesAreNearlyGreedy) {
    const auto logits = random_logits(3, 500);
    Sampler greedy({}, 500);
    const int32_t best = next_of(greedy, logits);
    for (const float temperature : {1e-3F, 1e-30F, std::numeric_limits<float>::denorm_min()}) {
        Sampler sampler({.temperature = temperature}, 500);
        for (int i = 0; i < 20; ++i) EXPECT_EQ(next_of(sampler, logits), best) << temperature;
    }
}

TEST(Sampler, SameSeedSameTokens) {
    const auto logits = random_logits(11, 300);
    const auto text = [&](uint64_t seed) {
        Sampler sampler({.temperature = 1.0F, .top_p = 0.95F, .seed = seed}, 300);
        std::vector<int32_t> ids(32);
        for (int32_t& id : ids) id = next_of(sampler, logits);
        return ids;
    };
    EXPECT_EQ(text(5), text(5));
    for (uint64_t seed = 0; seed < 50; ++seed) {
        const auto one = text(seed), other = text(seed + 1);
        EXPECT_NE(one, other);
        // Neighbouring seeds are not the same numbers, one step apart.
        EXPECT_FALSE(std::equal(one.begin() + 1, one.end(), other.begin()));
    }
}

TEST(Sampler, TheGeneratorIsTheSameOnEveryPlatform) {
    const std::vector<float> logits(1000, 0.0F);
    Sampler sampler({.temperature = 1.0F, .seed = 42}, 1000);
    std::vector<int32_t> ids(8);
    for (int32_t& id : ids) id = next_of(sampler, logits);
    EXPECT_EQ(ids, (std::vector<int32_t>{343, 955, 486, 67, 676, 67, 195, 734}));
}

TEST(Sampler, PenaltiesAgreeWithANaiveReference) {
    for (uint32_t seed = 1; seed <= 100; ++seed) {
        std::mt19937 random(seed);
        const size_t vocabulary = 1 + random() % 200;
        const auto uniform = [&](float low, float high) {
            return std::uniform_real_distribution<float>(low, high)(random);
        };
        SamplingParams params{.repetition_penalty = seed % 3 == 0 ? 1.0F : uniform(0.5F, 2.0F),
                              .presence_penalty = seed % 4 == 0 ? 0.0F : uniform(-2.0F, 2.0F),
                              .frequency_penalty = seed % 5 == 0 ? 0.0F : uniform(-2.0F, 2.0F)};
        std::map<int32_t, double> bias;
        for (uint32_t i = 0; i < random() % 4; ++i) {
            params.logit_bias.emplace_back(static_cast<int32_t>(random() % vocabulary), uniform(-5.0F, 5.0F));
            bias[params.logit_bias.back().first] += params.logit_bias.back().second;
        }
        Sampler sampler(params, static_cast<int64_t>(vocabulary));
        std::vector<int32_t> prompt(random() % 30);
        for (int32_t& id : prompt) id = static_cast<int32_t>(random() % vocabulary);
        sampler.observe_prompt(prompt);
        std::map<int32_t, int> answer;
        for (int step = 0; step < 20; ++step) {
            const auto raw = random_logits(seed * 100 + static_cast<uint32_t>(step), vocabulary);
            auto logits = raw;
            const int32_t chosen = sampler.next(logits).id;
            for (size_t i = 0; i < vocabulary; ++i) {
                const auto id = static_cast<int32_t>(i);
                const bool in_context = answer.contains(id) || std::ranges::count(prompt, id) > 0;
                const double expected = penalised(raw[i], params, in_context, answer[id] * 1, bias[id]);
                ASSERT_NEAR(logits[i], expected, 1e-4) << "seed " << seed << " step " << step << " token " << id;
                if (answer[id] == 0) answer.erase(id);
            }
            ASSERT_EQ(chosen, std::ranges::max_element(logits) - logits.begin());
            ++answer[chosen];
        }
    }
}

TEST(Sampler, PromptIdsWithoutALogitAreIgnored) {
    Sampler sampler({.repetition_penalty = 2.0F}, 4);
    sampler.observe_prompt(std::vector<int32_t>{-1, 4, std::numeric_limits<int32_t>::max(), 2});
    std::vector<float> logits{1, 1, 1, 1};
    EXPECT_EQ(sampler.next(logits).id, 0);
    EXPECT_EQ(logits, (std::vector<float>{1, 1, 0.5F, 1}));
}

TEST(Sampler, LogprobsAreTheModelsOwn) {
    const size_t vocabulary = 300;
    const auto raw = random_logits(21, vocabulary);
    double mass = 0.0;
    for (const float logit : raw) mass += std::exp(double{logit});
    // Whatever is done to choose, what is reported is the distribution the model gave.
    const SamplingParams variants[] = {
        {.logprobs = 5},
        {.temperature = 3.0F, .top_k = 40, .logprobs = 5},
        {.temperature = 0.7F, .top_p = 0.5F, .repetition_penalty = 2.0F, .logit_bias = {{7, 50.0F}}, .logprobs = 5}};
    for (const SamplingParams& params : variants) {
        Sampler sampler(params, vocabulary);
        for (int step = 0; step < 5; ++step) {
            auto logits = raw;
            const Sampled sampled = sampler.next(logits);
            EXPECT_NEAR(sampled.logprob, raw[static_cast<size_t>(sampled.id)] - std::log(mass), 1e-4);
            auto order = raw;
            std::ranges::sort(order, std::greater());
            ASSERT_EQ(sampled.top.size(), 5U);
            for (size_t i = 0; i < 5; ++i) {
                EXPECT_EQ(raw[static_cast<size_t>(sampled.top[i].id)], order[i]);
                EXPECT_NEAR(sampled.top[i].logprob, order[i] - std::log(mass), 1e-4);
            }
        }
    }
}

TEST(Sampler, LogprobsZeroReportsOnlyTheChosen) {
    Sampler sampler({.logprobs = 0}, 2);
    std::vector<float> logits{0.0F, 0.0F};
    const Sampled sampled = sampler.next(logits);
    EXPECT_NEAR(sampled.logprob, std::log(0.5), 1e-6);
    EXPECT_TRUE(sampled.top.empty());
}

TEST(Sampler, BrokenLogitsNeverCrashAndNaNIsNeverChosen) {
    const std::vector<std::vector<float>> broken = {
        {nan, nan, nan},
        {-infinity, -infinity, -infinity},
        {nan, -infinity, nan},
        {nan, 1.0F, 2.0F},
        {infinity, 1.0F, infinity},
        {1.0F, infinity, -infinity},
        {-infinity, -3.0F, nan},
        {3e38F, -3e38F, 0.0F},
    };
    const int32_t greedy[] = {0, 0, 0, 2, 0, 1, 1, 0};
    const SamplingParams variants[] = {{.logprobs = 3},
                                       {.temperature = 1.0F, .top_k = 2, .top_p = 0.5F, .min_p = 0.1F, .logprobs = 3},
                                       {.temperature = 1.0F, .top_p = 0.999F, .logprobs = 3},
                                       {.temperature = 10.0F,
                                        .min_p = 0.001F,
                                        .repetition_penalty = 0.125F,
                                        .frequency_penalty = 2.0F,
                                        .logprobs = 2}};
    for (const SamplingParams& params : variants) {
        for (size_t i = 0; i < broken.size(); ++i) {
            // As they are, and as the tail of a vocabulary of several blocks.
            for (const size_t before : {size_t{0}, size_t{200}}) {
                std::vector<float> logits(before, nan);
                logits.insert(logits.end(), broken[i].begin(), broken[i].end());
                const auto raw = logits;
                Sampler sampler(params, static_cast<int64_t>(logits.size()));
                const Sampled sampled = sampler.next(logits);
                ASSERT_GE(sampled.id, 0);
                ASSERT_LT(sampled.id, static_cast<int32_t>(raw.size()));
                const float best = *std::ranges::max_element(raw, [](float a, float b) {
                    return (std::isnan(a) ? -infinity : a) < (std::isnan(b) ? -infinity : b);
                });
                if (best > -infinity) {
                    ASSERT_FALSE(std::isnan(raw[static_cast<size_t>(sampled.id)])) << "case " << i;
                }
                if (params.temperature == 0.0F) {
                    ASSERT_EQ(sampled.id,
                              greedy[i] == 0 && !(best > -infinity) ? 0 : greedy[i] + static_cast<int32_t>(before))
                        << "case " << i;
                }
                ASSERT_TRUE(std::isfinite(sampled.logprob));
                for (const TokenLogprob& each : sampled.top) ASSERT_TRUE(std::isfinite(each.logprob));
            }
        }
    }
}

TEST(Sampler, NextAllocatesNothing) {
    const size_t vocabulary = 5000;
    const SamplingParams variants[] = {
        {},
        {.temperature = 1.0F},
        {.temperature = 1.0F, .top_p = 0.99F},
        {.temperature = 1.5F, .top_k = 4999, .top_p = 0.99F, .min_p = 0.0001F, .logprobs = 20},
        {.repetition_penalty = 1.3F, .presence_penalty = 1.0F, .logit_bias = {{3, 1.0F}}, .logprobs = 5}};
    for (const SamplingParams& params : variants) {
        Sampler sampler(params, vocabulary);
        auto logits = random_logits(5, vocabulary);
        int64_t made = 0;
        for (int step = 0; step < 50; ++step) {
            auto copy = logits;
            const int64_t before = testing::allocations();
            (void)sampler.next(copy);
            made += testing::allocations() - before;
        }
        EXPECT_EQ(made, 0);
    }
    const int64_t before = testing::allocations();
    const Sampler sampler({.temperature = 1.0F}, vocabulary);
    EXPECT_GT(testing::allocations(), before) << "the counter counts";
}

TEST(Sampler, DoesNotChooseWhatItMustNot) {
    std::vector<float> logits(300);
    for (size_t id = 0; id < logits.size(); ++id) logits[id] = static_cast<float>(id % 7);
    const std::vector<int32_t> never{6, 13, 299};  // the first two are among the largest
    for (const SamplingParams& params : {SamplingParams{}, SamplingParams{.temperature = 1.0F, .seed = 3},
                                         SamplingParams{.temperature = 2.0F, .logit_bias = {{13, 100.0F}}}}) {
        Sampler sampler(params, 300);
        for (int i = 0; i < 300; ++i) {
            std::vector<float> now = logits;
            const int32_t id = sampler.next(now, never).id;
            EXPECT_EQ(std::ranges::count(never, id), 0) << id;
        }
    }
    // The log-probabilities are the model's own all the same.
    Sampler sampler({.logprobs = 2}, 300), free({.logprobs = 2}, 300);
    std::vector<float> one = logits, other = logits;
    const Sampled held = sampler.next(one, never), freely = free.next(other);
    EXPECT_EQ(freely.id, 6);
    EXPECT_EQ(held.id, 20);
    EXPECT_EQ(held.top[0].id, 6);
    EXPECT_EQ(held.top[0].logprob, freely.top[0].logprob);
}

}  // namespace
}  // namespace rondo
