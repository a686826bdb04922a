#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/attention/policies/decode_selection/decode_selection.hpp"

namespace rondo {

/// The neighbours whose highest score a key takes over: a row of `keys`, itself among them. With `around` the key
/// stands in the middle of the row; an even number has one key more before it than behind it. Else the key stands at
/// the row's end: a key with a high score brings the keys behind it along.
struct MaxPool {
    int keys = 1;
    bool around = true;
    MaxPool(int keys_of, bool around_it = true) : keys(keys_of), around(around_it) {}
    int before() const { return around ? keys / 2 : keys - 1; }
    int after() const { return around ? (keys - 1) / 2 : 0; }
};

/// Finds the greatest of very many scores without sorting them. Works on ranks: integers that order as the scores do.
/// Owns scratch that grows to the longest row it meets and stays, so one object should serve all heads of a selection;
/// not for two threads at once.
class TopKeys {
public:
    /// ranks[i]: of the greatest score in the max pool of i, as far as `scores` reaches. A score below zero or not a
    /// number counts as zero, so broken weights cost quality but never a crash. `ranks` is as long.
    void rank(std::span<const float> scores, MaxPool max_pool, std::span<uint32_t> ranks);

    /// The greatest `count` are all ranks above `rank` and any `ties` of those that equal it.
    struct Cut {
        uint32_t rank = 0;
        int64_t ties = 0;
    };
    /// `count` from 1 to as many as there are ranks.
    Cut cut(std::span<const uint32_t> ranks, int64_t count);

    /// Appends the places of the `count` greatest, ascending, each plus `first`; of equal ones the earlier.
    void append(std::span<const uint32_t> ranks, int64_t count, int64_t first, std::vector<int32_t>& chosen);

private:
    std::vector<float> windows_, wider_windows_;  // of a stretch of keys that fits the nearest cache
    std::vector<size_t> places_;                  // after `cut`: ascending, all of its ranks and above among them
    std::vector<uint32_t> near_;
};

/// For callers that choose again and again: once it has met the longest row, nothing is allocated.
struct RankScratch {
    TopKeys top;
    std::vector<uint32_t> ranks;
};

/// How many keys of a KV head stay, and which of them without being asked for their score.
struct KeptKeys {
    int64_t budget = 0;  ///< in all; fewer than there are keys
    int64_t sinks = 0;   ///< the first ones
    int64_t recent = 0;  ///< the last ones; with the sinks no more than the budget
    MaxPool max_pool = 1;
};

/// Fills the empty `chosen` of every KV head, ascending: sinks, recent keys, and the best of those between, `budget` in
/// all. Scores are pooled among the keys between only: their neighbours are in anyway and must not lend them weight.
void choose_best(const KeyScores& scores, const KeptKeys& kept, std::span<std::vector<int32_t>> chosen);

/// Appends the keys [first, last).
void append_range(int64_t first, int64_t last, std::vector<int32_t>& chosen);

}  // namespace rondo
