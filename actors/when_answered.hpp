#pragma once

#include <caf/actor_clock.hpp>
#include <chrono>
#include <functional>
#include <utility>

namespace rondo {

/// How long an actor may take to answer a question about what it holds, and the front, which asks another for it.
inline constexpr auto answers_within = std::chrono::seconds(10), front_answers_within = std::chrono::seconds(20);

template <class Asked, class... Answer>
auto without_timer(Asked asked, std::function<void(Answer...)> handler) {
    return [asked, handler = std::move(handler)](Answer... answer) mutable {
        asked.self()->clock().cancel_request_timeout(asked.self(), asked.id());
        handler(std::forward<Answer>(answer)...);
    };
}

/// `asked.then(answer, error)` for a request with a time limit, whose timer goes when the answer comes. By itself CAF
/// keeps it, and the actor by it, until it is due: minutes, for thousands of requests a second.
template <class Asked, class OnAnswer, class OnError>
void when_answered(Asked asked, OnAnswer on_answer, OnError on_error) {
    asked.then(without_timer(asked, std::function(std::move(on_answer))),
               without_timer(asked, std::function(std::move(on_error))));
}

}  // namespace rondo
