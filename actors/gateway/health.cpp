#include "actors/gateway/health.hpp"

#include <algorithm>
#include <chrono>

namespace rondo {

namespace {

constexpr double patience_seconds = 30.0;

}  // namespace

Health::Verdict Health::look() {
    const std::lock_guard lock(mutex_);
    if (!gave_up_.empty()) return {false, gave_up_};
    if (engine_.load().turns == 0) return {};
    const int64_t moved = std::max<int64_t>(engine_.load().busy_since_ns, engine_.progress().last_ns);
    const int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
    const double still = static_cast<double>(now - moved) / 1e9;
    if (still <= patience_seconds) return {};
    return {false,
            "turns are under way and no device did anything for " + std::to_string(static_cast<int>(still)) + " s"};
}

void Health::gave_up(std::string why) {
    const std::lock_guard lock(mutex_);
    gave_up_ = std::move(why);
}

}  // namespace rondo
