#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace rondo {

/// How much is under way, for whoever asks from another thread.
struct Load {
    std::atomic<size_t> turns{0};
    std::atomic<size_t> running{0};         ///< of those, with KV of their own: let in, and not put away
    std::atomic<size_t> places_held{0};     ///< for turns that will follow
    std::atomic<int64_t> busy_since_ns{0};  ///< of the steady clock; while there are turns
    std::atomic<size_t> conversations{0};
    std::atomic<size_t> conversation_bytes{0};  ///< of what they remember
    std::atomic<uint64_t> left_by_age{0}, left_for_room{0};
    std::atomic<uint64_t> refused{0};
    std::atomic<bool> gave_up{false};         ///< no turn will be served any more
    std::atomic<int64_t> prompt_tokens{0};    ///< of prompts that are to be computed
    std::atomic<double> waited_seconds{0.0};  ///< prompts for keys from the disk, with nothing to compute meanwhile
    std::atomic<int64_t> blocks_cached{0};    ///< of all layer groups: kept for reuse, used by a turn or not
};

/// A turn that has KV, as long as this lives.
class Running {
public:
    explicit Running(std::shared_ptr<Load> load) : load_(std::move(load)) { ++load_->running; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running() { --load_->running; }

private:
    std::shared_ptr<Load> load_;
};

}  // namespace rondo
