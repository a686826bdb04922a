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

TextCrew::Options TextWorkers::crew_options(size_t threads, const Options& options) {
    return {.threads = threads,
            .waiting_max = options.texts_max - std::min(threads, options.texts_max),
            .bytes_max = options.bytes_max,
            .several_tenants = options.several_tenants,
            .own_threads = options.own_threads};
}

TextWorkers::TextWorkers(const Options& options)
    : options_(options), short_(crew_options(1, options)), long_(crew_options(2, options)) {}

Result<TextWorkers::Place> TextWorkers::add(TextQueue::Text text) {
    Place place{text.bytes <= options_.short_bytes_max, 0};
    // One that is larger than all the room there is finds it when nobody else is there.
    text.bytes = std::clamp<size_t>(text.bytes, 1, options_.bytes_max);
    text.job = [this, job = std::move(text.job)] {
        job();
        count_end();
    };
    if (!crew(place.is_short).add(std::move(text), place.id)) return refusal();
    return place;
}

void TextWorkers::withdraw(const Place& place) {
    crew(place.is_short).remove(place.id);
}

void TextWorkers::end() {
    short_.end();
    long_.end();
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
