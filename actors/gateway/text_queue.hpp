#pragma once

#include <functional>
#include <mutex>

#include "actors/fair_queue.hpp"
#include "actors/tenant_shares.hpp"

namespace rondo {

/// Long texts on their way to be tokenized. Only a few are at a time, since each holds a thread that decoding needs
/// too, and only so many wait; tenants share the threads by bytes, and the places. Safe from any thread.
class TextQueue {
public:
    using Job = std::function<void()>;
    enum class Taken {
        refused,  ///< too many wait
        waits,    ///< one who works will come to it
        begins,   ///< the caller has to have `work` called, once, on another thread
    };

    TextQueue(size_t at_once, size_t waiting_max, bool several_tenants)
        : at_once_(at_once), places_(at_once + waiting_max, several_tenants) {}

    Taken add(const Tenant& tenant, size_t bytes, Job job);
    /// Does what waits until nothing does. A job that throws is over, and nothing else.
    void work();

private:
    struct Text {
        uint64_t id = 0;
        Tenant tenant;
        size_t bytes = 0;
        Job job;
    };

    const size_t at_once_;
    std::mutex mutex_;
    FairQueue<Text> waiting_;
    TenantShares places_;
    uint64_t ids_ = 0;
    size_t texts_ = 0;    ///< waiting or being worked on
    size_t working_ = 0;  ///< those in `work`, or about to be
};

}  // namespace rondo
