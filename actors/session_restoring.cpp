// A session offers its turn to the store, which brings back what is stored of the prompt.

#include <chrono>
#include <utility>

#include "actors/session.hpp"
#include "actors/when_answered.hpp"
#include "kernels/kv_layout.hpp"

namespace rondo {

namespace {

// The store's thread may be busy for long: it rewrites files, and waits for the disk. Then the prompt is computed.
constexpr auto taken_within = std::chrono::milliseconds(200);

}  // namespace

/// The store is not asked for less than a block, nor by a turn that has waited for it in vain. Nor is it while an
/// earlier offer has no answer, so one offer of a conversation waits in its mailbox.
void Session::restore() {
    Turn& turn = *current_->turn;
    turn.restored_tokens = turn.given_up_tokens = 0;
    const bool is_worth_asking = TurnOffer::reusable_tokens_missing(turn) >= kv_block_tokens && !turn.waited_in_vain;
    if (options_.store->serves && current_->stages->store && is_worth_asking && !offer_)
        return dispatch(TurnStage::restore);
    restored();
}

/// The turn comes back from the store, or after a while without having been there.
void Session::offer(TurnPtr turn, caf::timespan timeout, std::function<void(const StageReply&)> answered,
                    std::function<void(const caf::error&)> failed) {
    offer_ = std::make_shared<TurnOffer>(std::move(turn));
    delayed_send(session_itself_actor(this), taken_within, give_up_atom::value, asked_);
    when_answered(
        request(current_->stages->store, timeout, restore_atom::value, offer_),
        [this, answered](const StageReply& reply) {
            offer_.reset();
            answered(reply);
        },
        [this, answered, failed, number = asked_](const caf::error& error) {
            const TurnOfferPtr offer = std::exchange(offer_, nullptr);
            if (number != asked_) return;
            if (error == caf::sec::request_timeout) return failed(error);
            // A store that has died does not touch the turn any more, so the prompt is computed.
            answered({StageReply::Outcome::done, offer->turn(), {}});
        });
}

/// The store has had its time to take the turn that was offered as this number, or what it waits for has had its time
/// to come.
void Session::give_store_up(uint64_t number) {
    if (number != asked_ || !offer_) return;
    if (const double patience = offer_->patience(); patience > 0.0)
        return delayed_send(session_itself_actor(this), timespan_of(patience), give_up_atom::value, number);
    if (TurnPtr turn = offer_->take_back()) return is_back(std::move(turn));
    delayed_send(session_itself_actor(this), taken_within, give_up_atom::value, number);
}

void Session::call_offer_off() {
    if (!offer_) return;
    if (TurnPtr turn = offer_->call_off()) is_back(std::move(turn));
}

/// From the store, which did not have it. Until the store has answered the next turn is not offered.
void Session::is_back(TurnPtr turn) {
    send(current_->stages->store, withdraw_atom::value);
    replied({StageReply::Outcome::done, std::move(turn), {}});
}

}  // namespace rondo
