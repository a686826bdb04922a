#include "kernels/cpu/thread_pool.hpp"

#include <immintrin.h>

#include <chrono>
#include <utility>

namespace rondo::cpu {

namespace {

using Clock = std::chrono::steady_clock;

// How long a thread keeps its core to itself while it waits, and how long a worker waits before it sleeps: longer than
// the gap between two ops, shorter than a busy neighbour would notice. These are times, not numbers of pauses, because
// a pause takes ten times as long on one machine as on another.
constexpr std::chrono::microseconds busy{50}, awake{100};

/// A moment, in which no clock is read; false when it has passed without the change.
template <class F>
bool spin(F&& changed) {
    constexpr int pauses = 64;
    for (int pause = 0; pause < pauses; ++pause) {
        if (changed()) return true;
        _mm_pause();
    }
    return false;
}

/// Waits for a change without sleeping; false after `longest`. After a while it offers the core to others at each look:
/// where more threads run than there are cores, the thread that will make the change may need this one.
template <class F>
bool spin_until(F&& changed, Clock::duration longest) {
    if (spin(changed)) return true;
    const Clock::time_point begin = Clock::now();
    for (Clock::duration waited{}; waited < longest; waited = Clock::now() - begin) {
        if (waited >= busy) std::this_thread::yield();
        if (spin(changed)) return true;
    }
    return false;
}

}  // namespace

ThreadPool::ThreadPool(int threads) : stretches_(static_cast<size_t>(std::max(threads, 1))) {
    try {
        for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { work(t); });
    } catch (...) {
        stop();  // the machine has no more threads: those started must not outlive this
        throw;
    }
}

ThreadPool::~ThreadPool() {
    stop();
}

void ThreadPool::stop() {
    {
        std::lock_guard lock(mutex_);
        stop_ = true;
        job_.fetch_add(1);
    }
    wake_.notify_all();
    for (auto& worker : workers_) worker.join();
}

void ThreadPool::claim_tasks(uint32_t job, int thread) {
    for (;;) {
        uint64_t ticket = ticket_.load();
        const auto task = static_cast<int64_t>(ticket & closed);
        const Call call = call_.load(std::memory_order_relaxed);
        void* const context = context_.load(std::memory_order_relaxed);
        if (ticket >> 32 != job || task >= tasks_.load(std::memory_order_relaxed)) return;
        if (!ticket_.compare_exchange_weak(ticket, ticket + 1)) continue;
        try {
            call(context, task, thread);
        } catch (...) {
            if (!failed_.exchange(true)) exception_ = std::current_exception();
        }
        done_.fetch_add(1, std::memory_order_release);
    }
}

void ThreadPool::run_job(int64_t tasks, Call call, void* context) {
    if (tasks <= 0) return;
    if (workers_.empty() || tasks == 1) {
        for (int64_t task = 0; task < tasks; ++task) call(context, task, 0);
        return;
    }
    const uint32_t job = job_.load(std::memory_order_relaxed) + 1;
    ticket_.store(uint64_t{job} << 32 | closed);
    call_.store(call, std::memory_order_relaxed);
    context_.store(context, std::memory_order_relaxed);
    tasks_.store(tasks, std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    ticket_.store(uint64_t{job} << 32);
    job_.store(job);
    if (sleeping_.load() > 0) {
        std::lock_guard lock(mutex_);
        wake_.notify_all();
    }
    claim_tasks(job, 0);
    spin_until([&] { return done_.load(std::memory_order_acquire) >= tasks; }, Clock::duration::max());
    if (failed_.exchange(false)) std::rethrow_exception(std::exchange(exception_, nullptr));
}

void ThreadPool::work(int thread) {
    uint32_t seen = 0;
    for (;;) {
        const auto posted = [&] { return job_.load() != seen; };
        if (!spin_until(posted, awake)) {
            std::unique_lock lock(mutex_);
            sleeping_.fetch_add(1);
            wake_.wait(lock, posted);
            sleeping_.fetch_sub(1);
        }
        seen = job_.load();
        if (stop_) return;
        claim_tasks(seen, thread);
    }
}

}  // namespace rondo::cpu
