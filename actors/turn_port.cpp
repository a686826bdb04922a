#include "actors/turn_port.hpp"

#include "actors/host_callback.hpp"
#include "actors/messages.hpp"

namespace rondo {

TurnPort::behavior_type TurnPort::make_behavior() {
    watch(front_);
    set_down_handler([this](const caf::down_msg& message) {
        if (message.reason == caf::exit_reason::user_shutdown) why_lost_ = ended_engine();
        quit();
    });
    return {
        [this](const TurnBegun& begun) {
            front_ = nullptr;
            watch(begun.session);
        },
        [this](TurnDelta delta) {
            if (ended_ || tell_host(callbacks_.on_delta, std::move(delta))) return;
            why_lost_ = make_error(ErrorCode::cancelled,
                                   "the turn was cancelled, for its on_delta threw an exception; it must not throw");
            quit();  // its session cancels it then
        },
        [this](TurnEnd news) {
            end(std::move(news));
            quit();
        },
    };
}

void TurnPort::on_exit() {
    stop_watching();
    TurnEnd lost;
    lost.error = std::move(why_lost_);
    end(std::move(lost));
    front_ = nullptr;
    const HostCallback runs;  // what they hold may be the last of the engine
    callbacks_ = {};
}

void TurnPort::end(TurnEnd news) {
    if (std::exchange(ended_, true)) return;
    (void)tell_host(callbacks_.on_end, std::move(news));
}

}  // namespace rondo
