#include "actors/text_crew.hpp"

namespace rondo {

TextCrew::TextCrew(const Options& options)
    : queue_(options.threads, options.waiting_max, options.several_tenants, options.bytes_max),
      own_threads_(options.own_threads) {
    try {
        for (size_t i = 0; i < options.threads && own_threads_; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {
        stop();  // those that started must not wait for work
        throw;
    }
}

void TextCrew::work() {
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return begun_ > 0 || is_over_; });
            if (is_over_) return;
            --begun_;
        }
        queue_.work();
    }
}

void TextCrew::stop() {
    {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
    }
    changed_.notify_all();
    threads_.clear();
}

bool TextCrew::begin(TextQueue::Taken taken) {
    if (taken == TextQueue::Taken::begins) {
        if (own_threads_) {
            {
                const std::lock_guard lock(mutex_);
                ++begun_;
            }
            changed_.notify_one();
        } else {
            queue_.work();
        }
    }
    return taken != TextQueue::Taken::refused;
}

void TextCrew::end() {
    queue_.end();
    stop();
}

}  // namespace rondo
