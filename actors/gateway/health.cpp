#include "actors/gateway/health.hpp"

#include <algorithm>

#include "actors/engine_inside.hpp"

namespace rondo {

namespace {

constexpr double patience_seconds = 30.0;

}  // namespace

Health::Verdict Health::look(std::chrono::steady_clock::time_point now) const {
    if (inside(engine_).load().gave_up)
        return {false, "the pipeline has given up: one of its actors died too often, or did not end"};
    const auto seconds_since = [now](int64_t ns) {
        return static_cast<double>(now.time_since_epoch().count() - ns) / 1e9;
    };
    for (const std::atomic<int64_t>& since : inside(engine_).progress().at_work_since_ns) {
        const int64_t ns = since;
        if (ns == 0 || seconds_since(ns) <= patience_seconds) continue;
        return {false, "a device has been at one piece of work for " +
                           std::to_string(static_cast<int>(seconds_since(ns))) + " s"};
    }
    if (inside(engine_).load().turns == 0) return {};
    const int64_t moved = std::max<int64_t>(inside(engine_).load().busy_since_ns, inside(engine_).progress().last_ns);
    const double still = seconds_since(moved);
    if (still <= patience_seconds) return {};
    return {false,
            "turns are under way and no device did anything for " + std::to_string(static_cast<int>(still)) + " s"};
}

}  // namespace rondo
