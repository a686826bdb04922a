#include "actors/turn_flow.hpp"

namespace rondo {

/// The user hears of it at once; the stage that holds the turn is asked for it.
TurnFlow::Actions TurnFlow::end_early(Action terminal) {
    if (state_ == State::idle || state_ == State::draining) return {};  // its terminal event has been
    state_ = State::draining;
    return {terminal, Action::withdraw};
}

TurnFlow::Actions TurnFlow::on(Event event) {
    switch (event) {
        case Event::start:
            if (state_ != State::idle) return {};
            state_ = State::admitting;
            return {Action::admit};
        case Event::cancel:
            return end_early(Action::end_cancelled);
        case Event::expired:
            return end_early(Action::end_expired);
        default:
            break;
    }
    if (state_ == State::idle) return {};
    if (state_ == State::draining) {
        state_ = State::idle;
        return {event == Event::lost ? Action::drop_kv : Action::keep_kv};
    }
    switch (event) {
        case Event::admitted:
            state_ = State::restoring;
            return {Action::restore};
        case Event::restored:
            state_ = State::prefilling;
            return {Action::prefill};
        case Event::prefilled:
            state_ = State::decoding;
            return {Action::decode};
        case Event::over:
            state_ = State::idle;
            return {Action::end_done, Action::keep_kv};
        case Event::preempted:
            state_ = State::admitting;
            return {Action::keep_kv, Action::admit};
        case Event::refused:
            state_ = State::idle;
            return {Action::end_failed, Action::keep_kv};
        default:
            state_ = State::idle;
            return {Action::end_failed, Action::drop_kv};
    }
}

std::string_view name_of(TurnFlow::State state) {
    constexpr std::string_view names[] = {"idle", "admitting", "restoring", "prefilling", "decoding", "draining"};
    return names[static_cast<size_t>(state)];
}

std::string_view name_of(TurnFlow::Event event) {
    constexpr std::string_view names[] = {"start",     "admitted", "restored", "prefilled", "over",
                                          "preempted", "refused",  "lost",     "cancel",    "expired"};
    return names[static_cast<size_t>(event)];
}

}  // namespace rondo
