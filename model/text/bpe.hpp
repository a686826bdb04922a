#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include "config/result.hpp"
#include "model/text/table_place.hpp"

namespace rondo {

/// The merges of a byte-pair encoding. Immutable after loading, safe to share between threads.
class BpeMerges {
public:
    struct Merge {
        uint32_t rank;  ///< the lowest is done first, the leftmost of equals; below 2^32 - 1
        int32_t id;     ///< of the merged token
    };

    /// A pair that is there already takes the new rank and id. Pairs that were chosen to have one hash are an error.
    Status add(int32_t left, int32_t right, Merge merge);
    /// nullptr when the pair does not merge.
    const Merge* find(int32_t left, int32_t right) const;

private:
    struct Slot {
        uint64_t pair = free_pair;
        Merge merge{};
    };
    static constexpr uint64_t free_pair = ~uint64_t{0};

    TablePlace place_of(uint64_t pair) const;
    void grow();

    std::vector<Slot> slots_;  // open addressing, a power of two
    size_t used_ = 0;
};

/// Merges the symbols of words; owns the scratch, so one serves a whole text. O(n log n) in a word's length. When
/// `stop` is requested, merging a long word ends early, with tokens that are of no use.
class BpeMerger {
public:
    explicit BpeMerger(const BpeMerges& merges, std::stop_token stop = {}) : merges_(&merges), stop_(std::move(stop)) {}
    /// Appends the tokens that `ids` (fewer than 2^32) become; they themselves are used up, to save memory.
    void merge(std::span<int32_t> ids, std::vector<int32_t>& out);

private:
    /// Begins at the place of its first id, where the merged token's id stands.
    struct Symbol {
        uint32_t length;  // in ids; stands at its last place too, so that the next symbol finds it
        uint32_t rank;    // of the merge with the next one; `none` where there is none, and where no symbol begins
    };

    void look_up(std::span<const int32_t> ids, uint32_t at);

    const BpeMerges* merges_;
    std::stop_token stop_;
    std::vector<Symbol> symbols_;
    std::vector<uint64_t> queue_;  // a heap of rank << 32 | position, least first; stale entries are skipped
};

}  // namespace rondo
