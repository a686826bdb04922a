#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace rondo {

/// How MInference lets one query head attend, as a search has found for a model once and for all.
struct HeadPattern {
    enum class Kind { lines, window, blocks };
    Kind kind = Kind::lines;
    /// lines: columns and diagonals; window: first keys and nearest keys; blocks: how many of 64 keys, and nothing.
    int64_t first = 0;
    int64_t second = 0;
    bool operator==(const HeadPattern&) const = default;
};

/// The patterns of all heads of all layers; empty where there was no search.
class HeadPatterns {
public:
    HeadPatterns() = default;
    /// The JSON that MInference's search writes: a list of layers, each {"HEAD": ["vertical_and_slash" | "stream_llm" |
    /// "block_sparse", count, count, score]}. It must name every head of a model of this shape, and no others.
    static Result<HeadPatterns> parse(std::string_view json, const std::string& where, int layers, int heads);

    bool empty() const { return patterns_.empty(); }
    uint64_t checksum() const { return checksum_; }  ///< of the text they were read from; 0: of none
    bool any(HeadPattern::Kind kind) const;
    const HeadPattern& of(int layer, int head) const {
        return patterns_[static_cast<size_t>(layer) * static_cast<size_t>(heads_) + static_cast<size_t>(head)];
    }

private:
    int heads_ = 0;
    uint64_t checksum_ = 0;
    std::vector<HeadPattern> patterns_;  // [layers, heads]
};

}  // namespace rondo
