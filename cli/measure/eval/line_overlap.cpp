#include "cli/measure/eval/line_overlap.hpp"

#include <algorithm>

namespace rondo::cli::eval {

void LineOverlap::begin_round() {
    before_ = std::exchange(now_, {});
    round_begin_.reset();
}

void LineOverlap::add(int layer, const ChunkShape& chunk, std::span<const Lines> by_head) {
    if (!round_begin_) round_begin_ = chunk.first_row;
    for (size_t head = 0; head < by_head.size(); ++head) {
        const std::vector<int32_t>& columns = by_head[head].columns;
        if (const auto before = before_.find({layer, head}); before != before_.end()) {
            for (const int32_t column : columns) {
                if (column >= *round_begin_) break;
                ++columns_;
                again_ += std::ranges::binary_search(before->second, column) ? 1 : 0;
            }
        }
        std::vector<int32_t> both;
        std::vector<int32_t>& own = now_[{layer, head}];
        std::ranges::set_union(own, columns, std::back_inserter(both));
        own = std::move(both);
    }
}

std::optional<double> LineOverlap::share() const {
    if (columns_ == 0) return std::nullopt;
    return static_cast<double>(again_) / static_cast<double>(columns_);
}

}  // namespace rondo::cli::eval
