#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "actors/text_queue.hpp"

namespace rondo {

/// A TextQueue with threads of its own, which are there from the start: a machine that has no more of them later still
/// serves. Safe from any thread.
class TextCrew {
public:
    struct Options {
        size_t threads = 2;
        size_t waiting_max = 256;
        size_t bytes_max = size_t{128} << 20;
        bool several_tenants = false;
        bool own_threads = true;  ///< false: a job is done where it is added
    };
    /// Throws std::system_error where there are no more threads.
    explicit TextCrew(const Options& options);
    ~TextCrew() { end(); }
    TextCrew(const TextCrew&) = delete;
    TextCrew& operator=(const TextCrew&) = delete;

    /// False: too many wait. `id` is set to what `remove` takes it back by.
    bool add(TextQueue::Text text, uint64_t& id) { return begin(queue_.add(std::move(text), id)); }
    bool add(const Tenant& tenant, size_t bytes, TextQueue::Job job) {
        return begin(queue_.add(tenant, bytes, std::move(job)));
    }
    /// Takes back one that waits; nothing happens to others.
    void remove(uint64_t id) { queue_.remove(id); }
    /// Lets nobody in any more, drops what waits, and returns when no thread works.
    void end();

private:
    bool begin(TextQueue::Taken taken);
    void work();
    void stop();

    TextQueue queue_;
    const bool own_threads_;
    std::mutex mutex_;
    std::condition_variable changed_;
    size_t begun_ = 0;  // texts that found a thread free and that none has begun with
    bool is_over_ = false;
    std::vector<std::jthread> threads_;
};

}  // namespace rondo
