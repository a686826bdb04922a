#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace rondo::cpu {

/// A thread that runs its tasks in order. A CPU device has one for its load and one for its store stream, so that
/// moving KV overlaps with computing. It starts at once and then sleeps, so that a machine without room for threads is
/// told when a device is opened, not in the middle of an answer.
class StreamThread {
public:
    /// Throws std::system_error where no thread can be made.
    StreamThread();
    ~StreamThread();
    StreamThread(const StreamThread&) = delete;
    StreamThread& operator=(const StreamThread&) = delete;
    void post(std::function<void()> task);
    /// How many tasks were posted so far.
    uint64_t posted() const;
    /// Blocks until so many of them are done.
    void wait_for(uint64_t count);

private:
    void work();

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> tasks_;
    uint64_t posted_ = 0, done_ = 0;
    bool stop_ = false;
    std::thread thread_;  // the last member: it uses all others
};

}  // namespace rondo::cpu
