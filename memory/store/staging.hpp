#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "memory/store/host_slab.hpp"

namespace rondo {

/// Memory on the way between pool and disk, in pieces of slabs. What was used before has its pages already: taking them
/// costs as long as reading into them. Used by one thread.
class Staging {
public:
    explicit Staging(Device& device) : device_(device) {}

    struct Slab {
        HostSlab memory;
        size_t cut = 0;  // bytes that pieces were made of
        size_t out = 0;  // pieces in use
    };
    struct Piece {
        std::shared_ptr<Slab> slab;  // that it is a part of
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
        ++taken.slab->out;
        taken.bytes = taken.all.first(bytes);
        return taken;
    }
    /// A slab of which nothing is in use any more is cut anew.
    void give(Piece piece) {
        const std::shared_ptr<Slab> slab = piece.slab;
        free_.push_back(std::move(piece));
        if (--slab->out > 0) return;
        std::erase_if(free_, [&](const Piece& one) { return one.slab == slab; });
        slab->cut = 0;
        if (slab != slab_) spare_.push_back(slab);
    }
    /// What is not in use goes, but for some: its pages need not be taken anew, and a GPU stops while pinned memory is
    /// given back.
    void clear() {
        free_.clear();
        if (slab_ != nullptr && slab_->out == 0) spare_.push_back(std::exchange(slab_, nullptr));
        size_t kept = 0;
        std::erase_if(spare_, [&](const std::shared_ptr<Slab>& slab) {
            const bool goes = kept + slab->memory.size() > kept_max;
            if (!goes) kept += slab->memory.size();
            return goes;
        });
    }

private:
    static constexpr size_t slab_bytes = size_t{8} << 20;
    static constexpr size_t kept_max = size_t{64} << 20;

    Piece cut(size_t bytes) {
        if (slab_ == nullptr || slab_->memory.size() - slab_->cut < bytes) {
            if (slab_ != nullptr && slab_->out == 0) spare_.push_back(slab_);
            slab_ = next_slab(bytes);
        }
        const std::span<std::byte> all = slab_->memory.span().subspan(slab_->cut, bytes);
        slab_->cut += bytes;
        ++slab_->out;
        return {slab_, all, all};
    }
    std::shared_ptr<Slab> next_slab(size_t bytes) {
        const auto fits = [bytes](const std::shared_ptr<Slab>& slab) { return slab->memory.size() >= bytes; };
        if (const auto spare = std::ranges::find_if(spare_, fits); spare != spare_.end()) {
            const std::shared_ptr<Slab> slab = std::move(*spare);
            spare_.erase(spare);
            return slab;
        }
        return std::make_shared<Slab>(Slab{HostSlab::any(device_, std::max(bytes, slab_bytes))});
    }

    Device& device_;
    std::vector<Piece> free_;
    std::shared_ptr<Slab> slab_;                // pieces are cut from
    std::vector<std::shared_ptr<Slab>> spare_;  // of which nothing is in use
};

}  // namespace rondo
