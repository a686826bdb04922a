#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "memory/store/aligned_bytes.hpp"

namespace rondo {

/// Memory on the way between pool and disk, in pieces of large pages. What was used before has its pages already:
/// taking them costs as long as reading into them. Used by one thread.
class Staging {
public:
    struct Piece {
        std::shared_ptr<AlignedBytes> slab;  // that it is a part of
        std::span<std::byte> all;
        std::span<std::byte> bytes;  ///< as many as were asked for
    };

    Piece take(size_t bytes) {
        auto best = free_.end();
        for (auto at = free_.begin(); at != free_.end(); ++at)
            if (at->all.size() >= bytes && (best == free_.end() || at->all.size() < best->all.size())) best = at;
        if (best == free_.end() || best->all.size() > 2 * bytes) return cut(bytes);
        Piece taken = std::move(*best);
        free_.erase(best);
        taken.bytes = taken.all.first(bytes);
        return taken;
    }
    void give(Piece piece) { free_.push_back(std::move(piece)); }
    /// What is not in use goes.
    void clear() {
        free_.clear();
        slab_ = nullptr;
    }

private:
    static constexpr size_t slab_bytes = size_t{8} << 20;

    Piece cut(size_t bytes) {
        if (slab_ == nullptr || slab_->size() - cut_ < bytes) {
            slab_ = std::make_shared<AlignedBytes>(AlignedBytes::unwritten(std::max(bytes, slab_bytes)));
            cut_ = 0;
        }
        const std::span<std::byte> all = slab_->span().subspan(cut_, bytes);
        cut_ += bytes;
        return {slab_, all, all};
    }

    std::vector<Piece> free_;
    std::shared_ptr<AlignedBytes> slab_;  // pieces are cut from
    size_t cut_ = 0;                      // of its bytes
};

}  // namespace rondo
