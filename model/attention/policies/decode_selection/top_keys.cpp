#include "model/attention/policies/decode_selection/top_keys.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <functional>
#include <numeric>

namespace rondo {

namespace {

/// Where the `count`-th greatest rank was found to be: from `lowest` to `highest`.
struct Bracket {
    uint32_t lowest = 0;
    uint32_t highest = 0;
    size_t above = 0;  // ranks beyond `highest`, fewer than count
    size_t count = 0;  // ranks from `lowest` on, at least count
};

/// Counts ranks in 2048 equal parts of the range that they fill, which narrows the search down to one part. Neighbours
/// often are in the same part, above all when they are pooled, and counting them in one place would wait for the last
/// store each time: hence four tables. They are not worth their while for few ranks.
Bracket bracket(std::span<const uint32_t> ranks, size_t count) {
    constexpr size_t few = 512, parts = 2048;
    uint32_t lowest = ranks[0], highest = ranks[0];
    for (const uint32_t rank : ranks) {
        lowest = std::min(lowest, rank);
        highest = std::max(highest, rank);
    }
    if (ranks.size() <= few || lowest == highest) return {lowest, highest, 0, ranks.size()};

    const int shift = std::max(0, static_cast<int>(std::bit_width(highest - lowest)) - 11);
    std::array<std::array<uint32_t, parts>, 4> counts{};
    size_t i = 0;
    for (; i + 4 <= ranks.size(); i += 4) {
        for (size_t lane = 0; lane < 4; ++lane) ++counts[lane][(ranks[i + lane] - lowest) >> shift];
    }
    for (; i < ranks.size(); ++i) ++counts[0][(ranks[i] - lowest) >> shift];

    size_t above = 0;
    for (uint32_t part = (highest - lowest) >> shift;; --part) {
        const size_t here = size_t{counts[0][part]} + counts[1][part] + counts[2][part] + counts[3][part];
        if (above + here >= count) {
            const uint32_t first = lowest + (part << shift);
            return {first, first + std::min(highest - first, (1U << shift) - 1), above, above + here};
        }
        above += here;
    }
}

/// The places of the `count` ranks from `lowest` on, ascending. Most stretches of a long row have none and are passed
/// over at once; in the others every place is written and then kept or not, which costs less than guessing which.
void collect(std::span<const uint32_t> ranks, uint32_t lowest, size_t count, std::vector<size_t>& places) {
    constexpr size_t stretch = 16;
    places.resize(count);
    for (size_t begin = 0, taken = 0; taken < count; begin += stretch) {
        const size_t end = std::min(begin + stretch, ranks.size());
        if (end - begin == stretch) {
            uint32_t any = 0;
            for (size_t i = 0; i < stretch; ++i) any |= ranks[begin + i] >= lowest ? 1 : 0;
            if (any == 0) continue;
        }
        for (size_t i = begin; i < end && taken < count; ++i) {
            places[taken] = i;
            taken += ranks[i] >= lowest ? 1 : 0;
        }
    }
}

void widen_windows(const float* windows, size_t step, size_t count, float* __restrict wider) {
    for (size_t i = 0; i < count; ++i) wider[i] = std::max(windows[i], windows[i + step]);
}

}  // namespace

void TopKeys::rank(std::span<const float> scores, MaxPool max_pool, std::span<uint32_t> ranks) {
    assert(max_pool.keys >= 1 && ranks.size() == scores.size());
    constexpr size_t stretch = 2048;
    const size_t keys = scores.size();
    const size_t before = std::min(static_cast<size_t>(max_pool.before()), keys);
    const size_t after = std::min(static_cast<size_t>(max_pool.after()), keys);
    const size_t width = before + 1 + after;
    windows_.resize(std::min(stretch, keys) + width - 1);
    wider_windows_.resize(windows_.size());
    for (size_t begin = 0; begin < keys; begin += stretch) {
        const size_t length = std::min(stretch, keys - begin);
        size_t count = length + width - 1;
        // Window i begins `before` keys ahead of key begin + i. What is not there is zero: no score is less.
        const size_t missing = before - std::min(before, begin);
        const size_t first = begin + missing - before;
        const size_t there = std::min(count - missing, keys - first);
        float* windows = windows_.data();
        float* wider = wider_windows_.data();
        std::fill_n(windows, missing, 0.0F);
        for (size_t i = 0; i < there; ++i) windows[missing + i] = scores[first + i] > 0.0F ? scores[first + i] : 0.0F;
        std::fill(windows + missing + there, windows + count, 0.0F);
        // Windows double in width until they are `width` wide; the last two that make one may overlap.
        for (size_t reach = 1; reach < width;) {
            const size_t step = std::min(reach, width - reach);
            count -= step;
            widen_windows(windows, step, count, wider);
            std::swap(windows, wider);
            reach += step;
        }
        for (size_t i = 0; i < length; ++i) ranks[begin + i] = std::bit_cast<uint32_t>(windows[i]);
    }
}

TopKeys::Cut TopKeys::cut(std::span<const uint32_t> ranks, int64_t count) {
    assert(count >= 1 && static_cast<size_t>(count) <= ranks.size());
    const Bracket found = bracket(ranks, static_cast<size_t>(count));
    collect(ranks, found.lowest, found.count, places_);
    near_.clear();
    for (const size_t place : places_) {
        if (ranks[place] <= found.highest) near_.push_back(ranks[place]);
    }
    const auto missing = count - static_cast<int64_t>(found.above);
    const auto last = near_.begin() + (missing - 1);
    std::nth_element(near_.begin(), last, near_.end(), std::greater<>());
    return {.rank = *last, .ties = std::count(near_.begin(), last + 1, *last)};
}

void TopKeys::append(std::span<const uint32_t> ranks, int64_t count, int64_t first, std::vector<int32_t>& chosen) {
    if (count == 0) return;
    const Cut cut = this->cut(ranks, count);
    int64_t ties = cut.ties;
    for (const size_t place : places_) {
        if (ranks[place] < cut.rank || (ranks[place] == cut.rank && ties-- <= 0)) continue;
        chosen.push_back(static_cast<int32_t>(first + static_cast<int64_t>(place)));
    }
}

void choose_best(const KeyScores& scores, const KeptKeys& kept, std::span<std::vector<int32_t>> chosen) {
    const int64_t asked = kept.budget - kept.sinks - kept.recent;
    const int64_t last = scores.keys - kept.recent;
    assert(asked >= 0 && kept.budget < scores.keys);
    assert(scores.weights.size() == chosen.size() * static_cast<size_t>(scores.keys));
    const auto between = static_cast<size_t>(last - kept.sinks);
    // Kept by the thread: taken anew for each layer, it would cost more in page faults than the choice itself.
    thread_local RankScratch scratch;
    scratch.ranks.resize(between);
    for (size_t head = 0; head < chosen.size(); ++head) {
        const size_t row = head * static_cast<size_t>(scores.keys);
        append_range(0, kept.sinks, chosen[head]);
        const auto candidates = scores.weights.subspan(row + static_cast<size_t>(kept.sinks), between);
        scratch.top.rank(candidates, kept.max_pool, scratch.ranks);
        scratch.top.append(scratch.ranks, asked, kept.sinks, chosen[head]);
        append_range(last, scores.keys, chosen[head]);
    }
}

void append_range(int64_t first, int64_t last, std::vector<int32_t>& chosen) {
    const size_t begin = chosen.size();
    chosen.resize(begin + static_cast<size_t>(last - first));
    std::iota(chosen.begin() + static_cast<std::ptrdiff_t>(begin), chosen.end(), static_cast<int32_t>(first));
}

}  // namespace rondo
