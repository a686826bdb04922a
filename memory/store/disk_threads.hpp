#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "memory/store/disk_queue.hpp"

namespace rondo {

/// A disk queue of threads, each of which waits for one piece of work at a time.
class DiskThreads final : public DiskQueue {
public:
    explicit DiskThreads(int depth);
    ~DiskThreads() override;

    void submit(DiskWork work) override;
    Way way() const override { return Way::threads; }

private:
    void work();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<DiskWork> waiting_;
    bool stop_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace rondo
