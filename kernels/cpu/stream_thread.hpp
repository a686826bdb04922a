#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace rondo::cpu {

/// A thread that does what it is given in order: the load and store streams of a CPU device, so that moving KV overlaps
/// with computing. Started with the first task.
class StreamThread {
public:
    ~StreamThread();
    void post(std::function<void()> task);
    /// Blocks until everything posted so far is done.
    void drain();

private:
    void work();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> tasks_;
    bool busy_ = false;
    bool stop_ = false;
    std::thread thread_;
};

}  // namespace rondo::cpu
