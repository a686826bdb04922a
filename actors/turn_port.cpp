#include "actors/turn_port.hpp"

namespace rondo {

TurnPort::behavior_type TurnPort::make_behavior() {
    watch(front_);
    set_down_handler([this](const caf::down_msg&) { quit(); });
    return {
        [this](const TurnBegun& begun) {
            front_ = nullptr;
            watch(begun.session);
        },
        [this](TurnDelta delta) {
            if (!ended_ && callbacks_.on_delta) callbacks_.on_delta(std::move(delta));
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
    lost.error = make_error(ErrorCode::internal, "the conversation's actor failed; asking again may help");
    end(std::move(lost));
    front_ = nullptr;
    callbacks_ = {};
}

void TurnPort::end(TurnEnd news) {
    if (std::exchange(ended_, true)) return;
    if (callbacks_.on_end) callbacks_.on_end(std::move(news));
}

}  // namespace rondo
