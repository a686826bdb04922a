#include "actors/gateway/health.hpp"

#include <algorithm>

namespace rondo {

namespace {

constexpr double patience_seconds = 30.0;

}  // namespace

Health::Verdict Health::look(std::chrono::steady_clock::time_point now) const {
    if (engine_.load().gave_up) return {false, "the pipeline's stages died too often, or did not end"};
    if (engine_.load().turns == 0) return {};
    const int64_t moved = std::max<int64_t>(engine_.load().busy_since_ns, engine_.progress().last_ns);
    const double still = static_cast<double>(now.time_since_epoch().count() - moved) / 1e9;
    if (still <= patience_seconds) return {};
    return {false,
            "turns are under way and no device did anything for " + std::to_string(static_cast<int>(still)) + " s"};
}

}  // namespace rondo
