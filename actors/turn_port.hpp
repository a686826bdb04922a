#pragma once

#include "actors/engine.hpp"

namespace rondo {

/// Brings a turn's events out of the actor world: one small actor a turn, which calls back and makes sure that the end
/// comes exactly once, even when whoever should have told it is gone.
class TurnPort : public listener_actor::base {
public:
    TurnPort(caf::actor_config& config, front_actor front, TurnCallbacks callbacks)
        : listener_actor::base(config), front_(std::move(front)), callbacks_(std::move(callbacks)) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "turn_port"; }
    void on_exit() override;

private:
    void end(TurnEnd end);

    front_actor front_;
    TurnCallbacks callbacks_;
    bool ended_ = false;
};

}  // namespace rondo
