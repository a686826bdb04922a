#pragma once

#include <functional>

#include "actors/handles.hpp"

namespace rondo {

/// Brings a turn's events out of the actor world: one small actor a turn, which calls back and makes sure that the end
/// comes exactly once, even when whoever should have told it is gone.
class TurnPort : public listener_actor::base {
public:
    struct Callbacks {
        /// On a thread of the actor system; they must not block. `on_end` is called once, and last.
        std::function<void(TurnDelta)> on_delta;
        std::function<void(TurnEnd)> on_end;
    };
    TurnPort(caf::actor_config& config, router_actor router, Callbacks callbacks)
        : listener_actor::base(config), router_(std::move(router)), callbacks_(std::move(callbacks)) {}
    behavior_type make_behavior() override;
    const char* name() const override { return "turn_port"; }
    void on_exit() override;

private:
    void end(TurnEnd end);

    router_actor router_;
    Callbacks callbacks_;
    bool ended_ = false;
};

}  // namespace rondo
