#include "actors/text_queue.hpp"

#include <malloc.h>

#include <optional>
#include <utility>
#include <vector>

namespace rondo {

namespace {

/// Of all that one thread worked on in a row. What a job of this size leaves behind in small pieces, such as a tree of
/// JSON, malloc would keep; to look for it takes some milliseconds.
constexpr size_t trimmed_bytes_min = size_t{1} << 20;

}  // namespace

TextQueue::Taken TextQueue::add(Text text, uint64_t& id) {
    const std::lock_guard lock(mutex_);
    if (ended_ || !places_.has_room(text.tenant, 1, texts_) || !room_.has_room(text.tenant, text.bytes, bytes_))
        return Taken::refused;
    places_.take(text.tenant);
    room_.take(text.tenant, text.bytes);
    ++texts_;
    bytes_ += text.bytes;
    id = ++ids_;
    const std::string flow = std::move(text.flow);
    const int priority = text.priority;
    waiting_.push(id, std::move(text), flow, priority);
    if (working_ == at_once_) return Taken::waits;
    ++working_;
    return Taken::begins;
}

void TextQueue::remove(uint64_t id) {
    std::optional<Text> removed;  // outside of the lock
    const std::lock_guard lock(mutex_);
    removed = waiting_.remove(id);
    if (removed) over(*removed);
}

void TextQueue::over(const Text& text) {
    places_.give_back(text.tenant);
    room_.give_back(text.tenant, text.bytes);
    --texts_;
    bytes_ -= text.bytes;
}

void TextQueue::work() {
    size_t done_bytes = 0;
    for (;;) {
        Text text;
        {
            const std::lock_guard lock(mutex_);
            if (!waiting_.empty()) {
                text = waiting_.serve(waiting_.front_id(), static_cast<double>(waiting_.front().bytes));
            } else if (done_bytes < trimmed_bytes_min) {
                if (--working_ == 0) nobody_works_.notify_all();
                return;
            }
        }
        if (!text.job) {
            ::malloc_trim(0);
            done_bytes = 0;
            continue;
        }
        try {
            text.job();
        } catch (...) {
            // Its client hears of it when the job, and with it the reply, is dropped.
        }
        text.job = {};  // with what it holds, outside of the lock
        done_bytes += text.bytes;
        const std::lock_guard lock(mutex_);
        over(text);
    }
}

void TextQueue::end() {
    std::vector<Text> dropped;  // outside of the lock
    std::unique_lock lock(mutex_);
    ended_ = true;
    while (!waiting_.empty()) {
        dropped.push_back(waiting_.serve(waiting_.front_id(), 0.0));
        over(dropped.back());
    }
    lock.unlock();
    dropped.clear();
    lock.lock();
    nobody_works_.wait(lock, [&] { return working_ == 0; });
}

}  // namespace rondo
