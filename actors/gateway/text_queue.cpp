#include "actors/gateway/text_queue.hpp"

#include <utility>

namespace rondo {

TextQueue::Taken TextQueue::add(const Tenant& tenant, size_t bytes, Job job) {
    const std::lock_guard lock(mutex_);
    if (!places_.has_room(tenant, 1, texts_)) return Taken::refused;
    const uint64_t id = ++ids_;
    waiting_.push(id, {id, tenant, bytes, std::move(job)}, tenant, 0);
    places_.take(tenant);
    ++texts_;
    if (working_ == at_once_) return Taken::waits;
    ++working_;
    return Taken::begins;
}

void TextQueue::work() {
    for (;;) {
        Text text;
        {
            const std::lock_guard lock(mutex_);
            if (waiting_.empty()) {
                --working_;
                return;
            }
            const Text& next = waiting_.front();
            text = waiting_.serve(next.id, static_cast<double>(next.bytes));
        }
        try {
            text.job();
        } catch (...) {
            // Its client hears of it when the job, and with it the reply, is dropped.
        }
        text.job = {};  // with what it holds, outside of the lock
        const std::lock_guard lock(mutex_);
        places_.give_back(text.tenant);
        --texts_;
    }
}

}  // namespace rondo
