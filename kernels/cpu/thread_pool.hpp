#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace rondo::cpu {

/// Runs one job at a time over all its threads; the caller is thread 0. Tasks are claimed one by one, so a thread that
/// the machine takes away for a while does not hold up the rest. Workers spin for a moment after a job (the next op of
/// a decode step follows within microseconds), then sleep. Whoever waits longer than that moment offers its core to
/// others. `run` is called by one thread at a time.
class ThreadPool {
public:
    explicit ThreadPool(int threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int threads() const { return static_cast<int>(workers_.size()) + 1; }

    /// Calls function(task, thread) for every task in [0, tasks), each once; returns when all are done. What a task
    /// throws is thrown here, after the others have finished.
    template <class F>
    void run(int64_t tasks, F&& function) {
        using Function = std::remove_reference_t<F>;
        run_job(
            tasks, [](void* context, int64_t task, int thread) { (*static_cast<Function*>(context))(task, thread); },
            const_cast<void*>(static_cast<const void*>(&function)));
    }

    /// The same for tasks that read memory one behind the other. Each thread takes a stretch of neighbouring tasks in
    /// order, so what it prefetches is what it reads next; then it helps with what is left of other stretches. When
    /// a task throws, some may be left undone.
    template <class F>
    void run_stretches(int64_t tasks, F&& function) {
        const int64_t count = std::min<int64_t>(threads(), tasks);
        for (int64_t s = 0; s < count; ++s) {
            stretches_[static_cast<size_t>(s)].next = tasks * s / count;
            stretches_[static_cast<size_t>(s)].end = tasks * (s + 1) / count;
        }
        run(count, [&](int64_t own, int thread) {
            for (int64_t s = 0; s < count; ++s) {
                Stretch& stretch = stretches_[static_cast<size_t>((own + s) % count)];
                for (;;) {
                    const int64_t task = stretch.next.fetch_add(1, std::memory_order_relaxed);
                    if (task >= stretch.end) break;
                    function(task, thread);
                }
            }
        });
    }

private:
    struct alignas(64) Stretch {
        std::atomic<int64_t> next{0};
        int64_t end = 0;
    };
    using Call = void (*)(void* context, int64_t task, int thread);
    static constexpr uint64_t closed = 0xffffffff;

    void run_job(int64_t tasks, Call call, void* context);
    void work(int thread);
    void stop();
    void claim_tasks(uint32_t job, int thread);

    // The job: written only while `ticket_` is closed, so whoever claims a task of a job reads that job's fields. A
    // worker that the machine has taken away never holds up a job it has not claimed from.
    std::atomic<Call> call_{nullptr};
    std::atomic<void*> context_{nullptr};
    std::atomic<int64_t> tasks_{0};
    alignas(64) std::atomic<uint64_t> ticket_{closed};  // job number << 32 | next task
    alignas(64) std::atomic<int64_t> done_{0};
    alignas(64) std::atomic<uint32_t> job_{0};
    std::vector<Stretch> stretches_;  // of a job, by thread
    std::atomic<bool> failed_{false};
    std::exception_ptr exception_;  // of the first task that failed; written by whoever set `failed_`
    std::atomic<bool> stop_{false};
    std::atomic<int> sleeping_{0};
    std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<std::thread> workers_;
};

}  // namespace rondo::cpu
