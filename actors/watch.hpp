#pragma once

#include <cstdint>
#include <utility>

namespace rondo {

/// Notices work that takes longer than it may, with one timer for all pieces that follow each other. A timer for each
/// decode step would cost more than the step's messages. What hangs is noticed after one to two limits.
class Watch {
public:
    /// A piece begins. True: a timer has to be set for `piece`.
    bool begin() {
        ++piece_;
        under_way_ = true;
        return !std::exchange(is_set_, true);
    }
    void end() { under_way_ = false; }
    uint64_t piece() const { return piece_; }

    enum class Found : uint8_t {
        idle,  ///< the next piece will want a timer
        work,  ///< a later piece is under way: the timer has to be set again, for that one
        late,  ///< the piece that it was set for is
    };
    /// The timer that was set for this piece has come.
    Found look(uint64_t piece) {
        is_set_ = under_way_;
        if (!under_way_) return Found::idle;
        return piece == piece_ ? Found::late : Found::work;
    }

private:
    uint64_t piece_ = 0;
    bool under_way_ = false, is_set_ = false;
};

}  // namespace rondo
