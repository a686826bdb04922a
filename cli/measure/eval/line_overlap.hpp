#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "model/attention/policies/prefill_sparsity/prefill_sparsity.hpp"

namespace rondo::cli::eval {

/// How far a round's prompt attends to the same earlier keys as the round before. A round's lines shape its KV,
/// and are not applied again. Where the overlap is low, a round reads KV that was computed from another view of
/// history.
class LineOverlap {
public:
    void begin_round();
    /// Lines of a chunk in one layer.
    void add(int layer, const ChunkShape& chunk, std::span<const Lines> by_head);
    /// Of the columns at keys of earlier rounds, those that the round before had too; none where there are none.
    std::optional<double> share() const;

private:
    using Columns = std::map<std::pair<int, size_t>, std::vector<int32_t>>;  // by layer and head, ascending
    Columns before_, now_;
    std::optional<int64_t> round_begin_;
    int64_t columns_ = 0, again_ = 0;
};

}  // namespace rondo::cli::eval
