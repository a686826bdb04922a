#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "actors/fair_queue.hpp"
#include "actors/tenant_shares.hpp"

namespace rondo {

/// Large requests on their way to be parsed, and texts to be rendered and tokenized. Only a few are worked on at a
/// time, since each holds a thread that decoding needs too. How many wait is bounded, and how many bytes they have.
/// Tenants, and flows within one, share the threads by bytes; tenants share both kinds of room. Safe from any thread.
class TextQueue {
public:
    /// A job must look by itself whether it is still wanted.
    using Job = std::function<void()>;
    enum class Taken {
        refused,  ///< too many wait
        waits,    ///< one who works will come to it
        begins,   ///< the caller has to have `work` called, once, on another thread
    };

    TextQueue(size_t at_once, size_t waiting_max, bool several_tenants, size_t bytes_max = size_t{128} << 20)
        : at_once_(at_once), places_(at_once + waiting_max, several_tenants), room_(bytes_max, several_tenants) {}

    struct Text {
        Tenant tenant;
        std::string flow;  ///< whom it is for: begins with the tenant's line
        int priority = 0;
        size_t bytes = 0;
        Job job;
    };
    /// `id` is set to what `remove` takes it back by.
    Taken add(Text text, uint64_t& id);
    Taken add(const Tenant& tenant, size_t bytes, Job job) {
        uint64_t id = 0;
        return add({tenant, tenant, 0, bytes, std::move(job)}, id);
    }
    /// Takes back one that waits; nothing happens to others.
    void remove(uint64_t id);
    /// Does what waits until nothing does. A job that throws is over, and nothing else. Memory of large jobs goes back
    /// to the system.
    void work();
    /// Lets nobody in any more, drops what waits, and returns when nobody works.
    void end();

private:
    void over(const Text& text);

    const size_t at_once_;
    std::mutex mutex_;
    std::condition_variable nobody_works_;
    FairQueue<Text> waiting_;
    TenantShares places_, room_;
    uint64_t ids_ = 0;
    size_t texts_ = 0;    ///< waiting or being worked on
    size_t bytes_ = 0;    ///< of these
    size_t working_ = 0;  ///< those in `work`, or about to be
    bool ended_ = false;
};

}  // namespace rondo
