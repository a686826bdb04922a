// Whom a session watches: who listens to its turns, and the stages that serve them.

#include <algorithm>

#include "actors/session.hpp"

namespace rondo {

/// Whoever is watched outlives it, and would keep it in memory. Whoever waits for an answer hears of its end.
void Session::on_exit() {
    do_what_waited(make_error(ErrorCode::internal, "the conversation's actor has ended"));
    for (const auto& [ask, arrived] : waiting_.all()) demonitor(ask->listener.address());
    if (current_) {
        demonitor(current_->ask->listener.address());
        if (current_->stages) current_->stages->each([this](const auto& stage) { demonitor(stage.address()); });
    }
    offered_.call_off();
    offered_ = {};
    router_ = nullptr;
    keeper_ = nullptr;
    stages_.reset();
    waiting_.clear();
    current_.reset();
    options_ = {};  // a dead actor may be held by a timer; the model may not
}

/// A turn's end. Its listener is watched no more, unless he waits for another turn of this conversation.
void Session::has_heard(const listener_actor& listener, const UnderWay* other) {
    demonitor(listener.address());
    const auto listens = [&](const WaitingTurns::Waiting& one) { return one.ask->listener == listener; };
    const bool waits = std::ranges::any_of(waiting_.all(), listens);
    if (waits || (other != nullptr && other->ask->listener == listener)) monitor(listener);
}

/// Somebody this conversation depends on is gone: whoever listened, or a stage.
void Session::down(const caf::down_msg& message) {
    const auto is = [&](const auto& actor) { return actor.address() == message.source; };
    for (const TurnId id : waiting_.from_last([&](const Ask& ask) { return is(ask.listener); }))
        stop(id, TurnFlow::Event::cancel);
    if (!current_) return;
    if (is(current_->ask->listener)) return stop(current_->ask->id, TurnFlow::Event::cancel);
    const Stages& stages = *current_->stages;
    if (!is(stages.admission) && !is(stages.prefill) && !is(stages.decode)) return;
    if (current_->stages == stages_) stages_.reset();  // until the router tells of others
    current_->error = make_error(ErrorCode::internal, "a stage of the pipeline failed; asking again may help");
    happen(TurnFlow::Event::lost);
}

}  // namespace rondo
