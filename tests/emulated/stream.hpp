#pragma once

#include <driver_types.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace rondo::emulated {

/// Counts how often it was recorded and how many of these records a stream has passed.
class Mark {
public:
    uint64_t record();
    void pass(uint64_t record);
    uint64_t recorded() const;
    void wait_for(uint64_t record) const;

private:
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    uint64_t recorded_ = 0;
    uint64_t passed_ = 0;
};

/// As long as one lives the GPU is late: streams begin nothing until the host waits for the GPU. So memory that is
/// written, read or freed too early shows in every run. RONDO_EMULATED_LATE=1 makes it late throughout.
class LateGpu {
public:
    LateGpu();
    ~LateGpu();
    LateGpu(const LateGpu&) = delete;
    LateGpu& operator=(const LateGpu&) = delete;
};

/// As long as one lives a thread of the host waits for the GPU.
class HostWaits {
public:
    HostWaits();
    ~HostWaits();
    HostWaits(const HostWaits&) = delete;
    HostWaits& operator=(const HostWaits&) = delete;
};

/// A queue of work with a thread that does it in order. Streams share no lock, so ThreadSanitizer sees where nothing
/// orders two of them.
class Stream {
public:
    Stream();
    /// Does what is still queued, then ends.
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    void add(std::function<void()> work);
    /// Blocks until the queue is empty and nothing runs.
    void wait();

private:
    void run();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> queue_;
    bool busy_ = false;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace rondo::emulated

struct CUstream_st : rondo::emulated::Stream {};
struct CUevent_st {
    std::shared_ptr<rondo::emulated::Mark> mark = std::make_shared<rondo::emulated::Mark>();
};
