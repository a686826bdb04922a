#pragma once

#include <algorithm>
#include <cmath>

namespace rondo {

/// How often turns end, so that whoever is refused can be told when a place may be free.
class TurnPace {
public:
    void ended(double now) {
        if (last_ > 0.0) gap_ = gap_ == 0.0 ? now - last_ : gap_ + (now - last_ - gap_) / memory;
        last_ = now;
    }
    /// Seconds until so many turns more have ended, at least 1; `latest` is when they must have.
    double expected_s(double now, double turns, double latest_s) const {
        const double silent = last_ > 0.0 ? now - last_ : 0.0;  // a longer gap than ever is the best guess of the next
        return std::clamp(std::ceil(std::max(gap_, silent) * turns), 1.0, std::max(std::ceil(latest_s), 1.0));
    }

private:
    static constexpr double memory = 8.0;
    double last_ = 0.0, gap_ = 0.0;
};

}  // namespace rondo
