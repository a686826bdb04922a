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
        begun_.acquire();
        if (over_) return;
        queue_.work();
    }
}

void TextCrew::stop() {
    over_ = true;
    begun_.release(std::ssize(threads_));
    threads_.clear();
}

bool TextCrew::begin(TextQueue::Taken taken) {
    if (taken == TextQueue::Taken::begins) {
        if (own_threads_) {
            begun_.release();
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
