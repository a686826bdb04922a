#pragma once

#include <cstdint>
#include <utility>

#include "actors/turn_offer.hpp"
#include "kernels/kv_layout.hpp"

namespace rondo {

/// A turn on its way through the store, as its session sees it: what is offered, for how long the session leaves it
/// there, and who has it and its blocks. Plain rules: the session sends the messages, and looks when it is told to. Not
/// shared between threads; the offer is.
class OfferedTurn {
public:
    /// The store's thread may be busy for long: it rewrites files, and waits for the disk. Then the prompt is computed.
    static constexpr double taken_within_s = 0.2;

    /// The store is not asked for less than a block, nor by a turn that has waited for it in vain. Nor is it while an
    /// earlier offer has no answer, so one offer of a conversation waits in its mailbox.
    bool may_be(const Turn& turn) const {
        return !offer_ && !turn.waited_in_vain && TurnOffer::reusable_tokens_missing(turn) >= kv_block_tokens;
    }
    /// As the question of this number, which is not 0. The first look is due `taken_within_s` later.
    TurnOfferPtr offer(TurnPtr turn, uint64_t number) {
        number_ = number;
        return offer_ = std::make_shared<TurnOffer>(std::move(turn));
    }
    struct Look {
        TurnPtr turn;             ///< it has been long enough, and the session has the turn again
        double again_in_s = 0.0;  ///< when to look again; 0: not any more
    };
    /// The store has had its time to take the turn that was offered as this number, or what it waits for has had its
    /// time to come.
    Look look(uint64_t number) {
        if (!offer_ || number != number_) return {};
        if (const double patience = offer_->patience(); patience > 0.0) return {nullptr, patience};
        if (TurnPtr turn = offer_->take_back()) {
            number_ = 0;
            return {std::move(turn), 0.0};
        }
        return {nullptr, taken_within_s};
    }
    /// The turn is over for its user. Null: the store has it and gives it back soon, or there is none.
    TurnPtr call_off() {
        number_ = 0;
        return offer_ ? offer_->call_off() : nullptr;
    }
    /// The store has answered. Or there will be no answer: then this is the turn, unless the session has it again.
    TurnPtr answered() {
        const TurnOfferPtr offer = std::exchange(offer_, nullptr);
        number_ = 0;
        return offer && !offer->was_taken_back() ? offer->turn() : nullptr;
    }

private:
    TurnOfferPtr offer_;   // that has no answer
    uint64_t number_ = 0;  // it is looked for; 0: the session has it again, or will have it soon
};

}  // namespace rondo
