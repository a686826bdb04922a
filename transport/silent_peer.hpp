#pragma once

#include <chrono>

namespace rondo {

/// Longer than HttpLimits::write_time is, so that a client who only reads too slowly is ended, and counted, by that.
constexpr std::chrono::milliseconds silent_time_max{60'000};

/// The kernel ends this TCP connection (ETIMEDOUT) when the machine at its other end has been silent for about so long:
/// it confirms neither what was sent to it nor, where nothing was, that it is there. Nobody else would tell of a
/// machine that lost its power or its network. One that takes no byte for so long counts as silent too.
void end_when_silent(int descriptor, std::chrono::milliseconds time = silent_time_max);

}  // namespace rondo
