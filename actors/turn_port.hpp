#pragma once

#include "actors/engine.hpp"

namespace rondo {

/// Brings a turn's events out of the actor world: one small actor a turn, which calls back. The end comes exactly once,
/// even when whoever should have told it is gone, and whatever the callbacks throw.
class TurnPort : public listener_actor::base {
public:
    TurnPort(caf::actor_config& config, front_actor front, TurnCallbacks callbacks)
        : listener_actor::base(config), front_(std::move(front)), callbacks_(std::move(callbacks)) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "turn_port"; }
    void on_exit() override;

private:
    /// One at a time: whoever is watched keeps a note of that, and this actor's memory by it, until it is told.
    template <class Handle>
    void watch(const Handle& who) {
        stop_watching();
        monitor(who);
        watched_ = who.address();
    }
    void stop_watching() {
        if (watched_) demonitor(std::exchange(watched_, nullptr));
    }
    void end(TurnEnd end);

    front_actor front_;
    caf::actor_addr watched_;  // who will tell of the end
    TurnCallbacks callbacks_;
    Error why_lost_ = make_error(ErrorCode::internal, "the conversation's actor failed; asking again may help");
    bool ended_ = false;
};

}  // namespace rondo
