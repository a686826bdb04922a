#include "kernels/cpu/stream_thread.hpp"

#include <utility>

#include "config/go_behind.hpp"

namespace rondo::cpu {

StreamThread::StreamThread() : thread_([this] { work(); }) {}

StreamThread::~StreamThread() {
    {
        std::lock_guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void StreamThread::post(std::function<void()> task) {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    ++posted_;
    changed_.notify_all();
}

uint64_t StreamThread::posted() const {
    std::lock_guard lock(mutex_);
    return posted_;
}

void StreamThread::wait_for(uint64_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, count] { return done_ >= count; });
}

void StreamThread::work() {
    go_behind_others();
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
        if (tasks_.empty()) return;  // stopping, and nothing is left undone
        auto task = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        task();
        task = nullptr;
        lock.lock();
        ++done_;
        changed_.notify_all();
    }
}

}  // namespace rondo::cpu
