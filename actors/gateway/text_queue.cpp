#include "actors/gateway/text_queue.hpp"

#include <utility>

namespace rondo {

TextQueue::Taken TextQueue::add(Job job) {
    const std::lock_guard lock(mutex_);
    if (texts_ >= texts_max_) return Taken::refused;
    waiting_.push_back(std::move(job));
    ++texts_;
    if (working_ == at_once_) return Taken::waits;
    ++working_;
    return Taken::begins;
}

void TextQueue::work() {
    for (;;) {
        Job job;
        {
            const std::lock_guard lock(mutex_);
            if (waiting_.empty()) {
                --working_;
                return;
            }
            job = std::move(waiting_.front());
            waiting_.pop_front();
        }
        try {
            job();
        } catch (...) {
            // Its client hears of it when the job, and with it the reply, is dropped.
        }
        const std::lock_guard lock(mutex_);
        --texts_;
    }
}

}  // namespace rondo
