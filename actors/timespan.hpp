#pragma once

#include <caf/timespan.hpp>
#include <chrono>

namespace rondo {

inline caf::timespan timespan_of(double seconds) {
    return std::chrono::duration_cast<caf::timespan>(std::chrono::duration<double>(seconds));
}

}  // namespace rondo
