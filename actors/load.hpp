#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rondo {

/// How much is under way, for whoever asks from another thread.
struct Load {
    std::atomic<size_t> turns{0};
    std::atomic<int64_t> busy_since_ns{0};  ///< of the steady clock; while there are turns
    std::atomic<size_t> conversations{0};
    std::atomic<uint64_t> refused{0};
    std::atomic<bool> gave_up{false};       ///< stages died too often or do not end: no turn will be served any more
    std::atomic<int64_t> blocks_cached{0};  ///< kept for reuse, whether a turn uses them now or not
};

}  // namespace rondo
