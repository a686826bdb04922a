#pragma once

#include <caf/timespan.hpp>
#include <chrono>
#include <cstdint>

namespace rondo {

inline caf::timespan timespan_of(double seconds) {
    return std::chrono::duration_cast<caf::timespan>(std::chrono::duration<double>(seconds));
}

/// Since its clock began to count.
template <class TimePoint>
double seconds_of(TimePoint time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
}

/// Of the wall clock.
inline double seconds_since_1970() {
    return seconds_of(std::chrono::system_clock::now());
}

inline int64_t whole_seconds_since_1970() {
    return static_cast<int64_t>(seconds_since_1970());
}

}  // namespace rondo
