#include "actors/turn_port.hpp"

#include "actors/messages.hpp"

namespace rondo {

namespace {

/// What a host throws ends here: CAF would let it pass out of `on_exit`, and end the process.
template <class News>
bool tell(const std::function<void(News)>& callback, News news) {
    try {
        if (callback) callback(std::move(news));
        return true;
    } catch (...) {
        return false;
    }
}

}  // namespace

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
            if (ended_ || tell(callbacks_.on_delta, std::move(delta))) return;
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
    callbacks_ = {};
}

void TurnPort::end(TurnEnd news) {
    if (std::exchange(ended_, true)) return;
    (void)tell(callbacks_.on_end, std::move(news));
}

}  // namespace rondo
