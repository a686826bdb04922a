#include "actors/text_workers.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "actors/timespan.hpp"

namespace rondo {

namespace {

constexpr double retry_s_max = 60.0;

double now() {
    return seconds_of(std::chrono::steady_clock::now());
}

}  // namespace

TextWorkers::Crew::Crew(size_t count, const Options& options)
    : queue(count, options.texts_max - std::min(count, options.texts_max), options.several_tenants, options.bytes_max) {
    for (size_t i = 0; i < count && options.own_threads; ++i) threads.emplace_back([this] { work(); });
}

void TextWorkers::Crew::work() {
    for (;;) {
        begun.acquire();
        if (over) return;
        queue.work();
    }
}

TextWorkers::TextWorkers(const Options& options) : options_(options), short_(1, options), long_(2, options) {}

TextWorkers::~TextWorkers() {
    end();
}

Result<TextWorkers::Place> TextWorkers::add(TextQueue::Text text) {
    Place place{text.bytes <= options_.short_bytes_max, 0};
    // One that is larger than all the room there is finds it when nobody else is there.
    text.bytes = std::clamp<size_t>(text.bytes, 1, options_.bytes_max);
    text.job = [this, job = std::move(text.job)] {
        job();
        count_end();
    };
    Crew& crew = this->crew(place.is_short);
    const TextQueue::Taken taken = crew.queue.add(std::move(text), place.id);
    if (taken == TextQueue::Taken::refused) return refusal();
    if (taken == TextQueue::Taken::waits) return place;
    if (options_.own_threads) {
        crew.begun.release();
    } else {
        crew.queue.work();
    }
    return place;
}

void TextWorkers::withdraw(const Place& place) {
    crew(place.is_short).queue.remove(place.id);
}

void TextWorkers::end() {
    for (Crew* const crew : {&short_, &long_}) {
        crew->queue.end();
        crew->over = true;
        crew->begun.release(std::ssize(crew->threads));
        crew->threads.clear();
    }
}

void TextWorkers::count_end() {
    const std::lock_guard lock(mutex_);
    pace_.ended(now());
}

Error TextWorkers::refusal() {
    Error error =
        make_error(ErrorCode::overloaded, "too many texts wait to be rendered and tokenized; ask again later");
    const std::lock_guard lock(mutex_);
    error.retry_after_s = pace_.expected_s(now(), 1.0, retry_s_max);
    return error;
}

}  // namespace rondo
