#pragma once

#include <chrono>
#include <mutex>

namespace rondo {

/// For how long something of a kind was under way; what is under way beside something else counts once. Safe from any
/// thread.
class BusyTime {
public:
    void begin() {
        const std::unique_lock lock(mutex_);
        if (under_way_++ == 0) began_ = Clock::now();
    }
    void end() {
        const std::unique_lock lock(mutex_);
        if (--under_way_ == 0) before_ += Clock::now() - began_;
    }
    double seconds() const {
        const std::unique_lock lock(mutex_);
        const std::chrono::duration<double> now = under_way_ > 0 ? Clock::now() - began_ : Clock::duration(0);
        return (before_ + now).count();
    }

private:
    using Clock = std::chrono::steady_clock;

    mutable std::mutex mutex_;
    int under_way_ = 0;
    Clock::time_point began_;
    std::chrono::duration<double> before_{0.0};
};

}  // namespace rondo
