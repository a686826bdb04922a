#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "config/result.hpp"

namespace rondo::cuda {

/// Says when the work of one stream is done, from a thread of its own that sleeps on events in the order they were
/// added. A host function (cudaLaunchHostFunc) would hold its stream up while it runs, and is never called once the GPU
/// has failed; here a failure arrives like any other completion. Each stream has its queue, so that a long copy to the
/// store delays no report about a decode step.
class CompletionQueue {
public:
    explicit CompletionQueue(int ordinal);
    /// Reports everything still pending, then ends.
    ~CompletionQueue();
    CompletionQueue(const CompletionQueue&) = delete;
    CompletionQueue& operator=(const CompletionQueue&) = delete;

    /// Calls `done` when all that is now on `stream` has ended. An error returned here means that it will not be
    /// called.
    Status add(cudaStream_t stream, std::function<void(Status)> done);
    /// Waits until all that was added has been called and is gone, with what it held. Not for a `done` to call.
    void settle();

private:
    struct Pending {
        cudaEvent_t event;
        std::function<void(Status)> done;
    };
    Result<cudaEvent_t> take_event();
    void run();

    const int ordinal_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Pending> pending_;  // guarded by mutex_; swapped with the thread's own, so neither is allocated anew
    std::vector<cudaEvent_t> idle_events_;  // guarded by mutex_
    uint64_t added_ = 0, over_ = 0;         // guarded by mutex_
    std::condition_variable settled_;
    bool stopping_ = false;  // guarded by mutex_
    std::thread thread_;
};

}  // namespace rondo::cuda
