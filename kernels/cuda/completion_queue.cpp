#include "kernels/cuda/completion_queue.hpp"

#include <utility>

#include "kernels/cuda/cuda_status.hpp"

namespace rondo::cuda {

CompletionQueue::CompletionQueue(int ordinal) : ordinal_(ordinal), thread_([this] { run(); }) {}

CompletionQueue::~CompletionQueue() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
    for (cudaEvent_t event : idle_events_) (void)cudaEventDestroy(event);
}

Result<cudaEvent_t> CompletionQueue::take_event() {
    {
        const std::lock_guard lock(mutex_);
        if (!idle_events_.empty()) {
            cudaEvent_t event = idle_events_.back();
            idle_events_.pop_back();
            return event;
        }
    }
    cudaEvent_t event = nullptr;
    const unsigned flags =
        cudaEventDisableTiming | cudaEventBlockingSync;  // sleep, rather than spin on a core of the CPU
    RONDO_TRY(cuda_status(cudaEventCreateWithFlags(&event, flags), ordinal_, "creating an event"));
    return event;
}

Status CompletionQueue::add(cudaStream_t stream, std::function<void(Status)> done) {
    RONDO_ASSIGN(cudaEvent_t event, take_event());
    const cudaError_t recorded = cudaEventRecord(event, stream);
    {
        const std::lock_guard lock(mutex_);
        if (recorded != cudaSuccess) {
            idle_events_.push_back(event);
        } else {
            pending_.push_back({event, std::move(done)});
            ++added_;
        }
    }
    if (recorded != cudaSuccess) return cuda_error(recorded, ordinal_, "recording an event");
    changed_.notify_one();
    return {};
}

void CompletionQueue::run() {
    (void)cudaSetDevice(ordinal_);  // where this fails, so does each wait below, and says why
    std::vector<Pending> taken;
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return stopping_ || !pending_.empty(); });
            if (pending_.empty()) return;
            taken.swap(pending_);
        }
        for (Pending& one : taken) {
            one.done(cuda_status(cudaEventSynchronize(one.event), ordinal_, "work on a stream"));
            one.done = nullptr;  // what it holds goes before anybody hears that it is over
            const std::lock_guard lock(mutex_);
            idle_events_.push_back(one.event);
            ++over_;
            settled_.notify_all();
        }
        taken.clear();
    }
}

void CompletionQueue::settle() {
    std::unique_lock lock(mutex_);
    settled_.wait(lock, [this, all = added_] { return over_ >= all; });
}

}  // namespace rondo::cuda
