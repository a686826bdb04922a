#include "model/attention/policies/decode_selection/quest.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <limits>
#include <numeric>

#include "config/method_rows.hpp"
#include "model/attention/policies/decode_selection/methods.hpp"

namespace rondo {

namespace {

/// An integer that orders as scores of either sign do: a negative float's bits grow as it falls.
uint32_t rank_of(float score) {
    const auto bits = std::bit_cast<uint32_t>(score);
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
}

/// Adds up in lanes, so that it can be vectorised without reordering what the source says.
float page_score(const float* on_lowest, const float* on_highest, const float* lowest, const float* highest,
                 size_t head_size) {
    constexpr size_t lanes = 16;
    std::array<float, lanes> sums{};
    size_t c = 0;
    for (; c + lanes <= head_size; c += lanes) {
        for (size_t lane = 0; lane < lanes; ++lane) {
            sums[lane] += on_lowest[c + lane] * lowest[c + lane] + on_highest[c + lane] * highest[c + lane];
        }
    }
    for (; c < head_size; ++c) sums[0] += on_lowest[c] * lowest[c] + on_highest[c] * highest[c];
    return std::accumulate(sums.begin(), sums.end(), 0.0F);
}

}  // namespace

void clear_page_bounds(std::span<float> lowest, std::span<float> highest) {
    std::ranges::fill(lowest, std::numeric_limits<float>::infinity());
    std::ranges::fill(highest, -std::numeric_limits<float>::infinity());
}

void extend_page_bounds(std::span<const float> keys, std::span<float> lowest, std::span<float> highest) {
    const size_t head_size = lowest.size();
    assert(highest.size() == head_size && keys.size() % head_size == 0);
    for (size_t begin = 0; begin < keys.size(); begin += head_size) {
        for (size_t c = 0; c < head_size; ++c) {
            lowest[c] = std::min(lowest[c], keys[begin + c]);
            highest[c] = std::max(highest[c], keys[begin + c]);
        }
    }
}

void weigh_page_bounds(std::span<const float> queries, std::span<float> on_lowest, std::span<float> on_highest) {
    const size_t head_size = on_lowest.size();
    assert(on_highest.size() == head_size && !queries.empty() && queries.size() % head_size == 0);
    const float share = 1.0F / static_cast<float>(queries.size() / head_size);
    std::ranges::fill(on_lowest, 0.0F);
    std::ranges::fill(on_highest, 0.0F);
    for (size_t begin = 0; begin < queries.size(); begin += head_size) {
        for (size_t c = 0; c < head_size; ++c) {
            on_lowest[c] += share * std::min(queries[begin + c], 0.0F);
            on_highest[c] += share * std::max(queries[begin + c], 0.0F);
        }
    }
}

void score_pages(std::span<const float> on_lowest, std::span<const float> on_highest, std::span<const float> lowest,
                 std::span<const float> highest, std::span<float> scores) {
    const size_t head_size = on_lowest.size();
    assert(on_highest.size() == head_size);
    assert(lowest.size() == scores.size() * head_size && highest.size() == lowest.size());
    for (size_t page = 0; page < scores.size(); ++page) {
        const size_t at = page * head_size;
        scores[page] = page_score(on_lowest.data(), on_highest.data(), &lowest[at], &highest[at], head_size);
    }
}

void choose_pages(std::span<const float> scores, int64_t budget_keys, RankScratch& scratch,
                  std::vector<int32_t>& pages) {
    assert(!scores.empty());
    const auto pages_there = static_cast<int64_t>(scores.size());
    const int64_t count = std::min(pages_there, std::max(quest_pages_min, budget_keys / quest_page_keys));
    pages.clear();
    scratch.ranks.resize(scores.size() - 1);
    std::transform(scores.begin(), scores.end() - 1, scratch.ranks.begin(), rank_of);
    scratch.top.append(scratch.ranks, count - 1, 0, pages);
    pages.push_back(static_cast<int32_t>(pages_there - 1));
}

static_assert(row_of(DecodeAttention::Method::quest).budget_tokens_min == quest_pages_min * quest_page_keys);

/// A step chooses its pages itself, by the functions above.
std::unique_ptr<DecodeSelection> make_quest(const DecodeAttention&) {
    return nullptr;
}

}  // namespace rondo
