#include "tests/emulated/stream.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace rondo::emulated {
namespace {

int late_of_environment() {
    const char* const text = std::getenv("RONDO_EMULATED_LATE");
    const std::string_view late = text == nullptr ? "0" : text;
    if (late == "0" || late == "1") return late == "1" ? 1 : 0;
    std::fprintf(stderr, "RONDO_EMULATED_LATE is \"%s\"; it must be 0 or 1\n", text);
    std::exit(2);
}

struct Start {
    std::mutex mutex;
    std::condition_variable changed;
    std::atomic<int> late = late_of_environment();  // written under the mutex
    int waiting = 0;                                // threads of the host; guarded by mutex
};

Start& start() {
    static Start one;
    return one;
}

/// Only a late GPU's streams take the mutex: it would order them, and ThreadSanitizer would see no race of theirs.
void wait_for_start() {
    Start& s = start();
    const auto is_late = [&s] { return s.late.load(std::memory_order_relaxed) > 0; };
    if (!is_late()) return;
    std::unique_lock lock(s.mutex);
    s.changed.wait(lock, [&] { return !is_late() || s.waiting > 0; });
}

template <class Count>
void change(Count& count, int by) {
    {
        const std::lock_guard lock(start().mutex);
        count += by;
    }
    start().changed.notify_all();
}

}  // namespace

LateGpu::LateGpu() {
    change(start().late, 1);
}

LateGpu::~LateGpu() {
    change(start().late, -1);
}

HostWaits::HostWaits() {
    change(start().waiting, 1);
}

HostWaits::~HostWaits() {
    change(start().waiting, -1);
}

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
    const HostWaits waits;
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
    const HostWaits waits;
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
        wait_for_start();
        work();
        {
            const std::lock_guard lock(mutex_);
            busy_ = false;
        }
        changed_.notify_all();
    }
}

}  // namespace rondo::emulated
