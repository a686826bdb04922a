#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "memory/store/refusal.hpp"

namespace rondo {

/// What the store has done, for whoever asks from another thread.
struct StoreFigures {
    std::atomic<bool> wanted{false};  ///< the configuration names a folder
    std::atomic<bool> serves{false};  ///< there is one, and it lives
    std::atomic<uint64_t> bytes{0}, records{0};
    std::atomic<int64_t> foreign{0};  ///< records of another model or version, at the start
    std::atomic<uint64_t> bytes_written{0}, bytes_read{0}, bytes_never_read{0};
    std::atomic<uint64_t> conversations{0};
    std::atomic<int64_t> conversations_failed{0};  ///< changes of them that could not be written
    std::atomic<int64_t> written{0}, read{0}, evicted{0}, expired{0}, damaged{0}, never_read{0};
    std::array<std::atomic<int64_t>, store_refusals> refused{};
    std::atomic<int64_t> tokens_asked{0}, tokens_found{0}, tokens_restored{0}, tokens_not_worth{0}, tokens_failed{0};
    std::atomic<int64_t> tokens_ahead{0};
    std::atomic<double> restore_seconds{0.0}, ahead_seconds{0.0}, seconds_writing{0.0}, seconds_reading{0.0};
    std::atomic<int64_t> queue_sequences{0};
    std::atomic<uint64_t> queue_bytes{0};
    std::atomic<int64_t> unwritten{0};  ///< turns whose KV left memory before it was on the disk
    /// Of host memory in front of the disk; 0: there is none.
    std::atomic<uint64_t> host_bytes_max{0};
    std::atomic<uint64_t> host_bytes{0}, host_records{0}, host_bytes_copied{0}, host_bytes_filled{0};
    std::atomic<double> host_seconds_copying{0.0}, host_seconds_filling{0.0};
    std::atomic<int64_t> host_found{0}, host_evicted{0};
};

}  // namespace rondo
