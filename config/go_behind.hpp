#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

namespace rondo {

/// For a thread whose work others need not wait for: where all cores compute it gets a quarter of one, and on an idle
/// core nothing changes.
inline void go_behind_others() {
    constexpr int steps = 5, last = 19;
    const auto thread = static_cast<id_t>(gettid());
    setpriority(PRIO_PROCESS, thread, std::min(getpriority(PRIO_PROCESS, thread) + steps, last));
}

}  // namespace rondo
