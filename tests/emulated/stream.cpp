#include "tests/emulated/stream.hpp"

#include <algorithm>

namespace rondo::emulated {

uint64_t Mark::record() {
    const std::lock_guard lock(mutex_);
    return ++recorded_;
}

void Mark::pass(uint64_t record) {
    {
        const std::lock_guard lock(mutex_);
        passed_ = std::max(passed_, record);
    }
    changed_.notify_all();
}

uint64_t Mark::recorded() const {
    const std::lock_guard lock(mutex_);
    return recorded_;
}

void Mark::wait_for(uint64_t record) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return passed_ >= record; });
}

Stream::Stream() : thread_([this] { run(); }) {}

Stream::~Stream() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void Stream::add(std::function<void()> work) {
    {
        const std::lock_guard lock(mutex_);
        queue_.push_back(std::move(work));
    }
    changed_.notify_all();
}

void Stream::wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

void Stream::run() {
    for (;;) {
        std::function<void()> work;
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
            if (queue_.empty()) return;
            work = std::move(queue_.front());
            queue_.pop_front();
            busy_ = true;
        }
        work();
        {
            const std::lock_guard lock(mutex_);
            busy_ = false;
        }
        changed_.notify_all();
    }
}

}  // namespace rondo::emulated
