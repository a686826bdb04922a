#pragma once

#include <time.h>

#include <chrono>

namespace rondo::testing {

/// What all threads of this process have computed: on a busy machine too, no more than what was asked of them.
inline std::chrono::nanoseconds cpu_time() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace rondo::testing
