// A session offers its turn to the store, which brings back what is stored of the prompt.

#include <utility>

#include "actors/session.hpp"
#include "actors/when_answered.hpp"

namespace rondo {

void Session::restore() {
    Turn& turn = *current_->turn;
    turn.restored_tokens = turn.given_up_tokens = 0;
    if (options_.store->serves && current_->stages->store && offered_.may_be(turn)) return dispatch(TurnStage::restore);
    restored();
}

/// The turn comes back from the store, or after a while without having been there.
void Session::offer(TurnPtr turn, caf::timespan timeout, std::function<void(const StageReply&)> answered,
                    std::function<void(const caf::error&)> failed) {
    look_at_offer_in(options_.taken_within_s, asked_);
    when_answered(
        request(current_->stages->store, timeout, restore_atom::value, offered_.offer(std::move(turn), asked_)),
        [this, answered](const StageReply& reply) {
            offered_.answered();
            answered(reply);
        },
        [this, answered, failed, number = asked_](const caf::error& error) {
            TurnPtr left = offered_.answered();
            if (number != asked_) return;
            if (error == caf::sec::request_timeout) return failed(error);
            // A store that has died does not touch the turn any more, so the prompt is computed.
            answered({StageReply::Outcome::done, std::move(left), {}});
        });
}

void Session::look_at_offer_in(double seconds, uint64_t number) {
    delayed_send(session_itself_actor(this), timespan_of(seconds), give_up_atom::value, number);
}

void Session::look_at_offer(uint64_t number) {
    OfferedTurn::Look look = offered_.look(number);
    if (look.again_in_s > 0.0) look_at_offer_in(look.again_in_s, number);
    if (look.turn) is_back(std::move(look.turn));
}

/// From the store, which did not have it: what it noted for the turn may go.
void Session::is_back(TurnPtr turn) {
    send(current_->stages->store, withdraw_atom::value);
    replied({StageReply::Outcome::done, std::move(turn), {}});
}

}  // namespace rondo
