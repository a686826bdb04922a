#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "actors/turn.hpp"

namespace rondo {

/// A turn that its session offers to the store. The store takes the turn, or the session takes it back: whoever is
/// first owns the turn, and the other one must not touch it. While the store only waits for something, the session may
/// still take it back. Safe from any thread.
class TurnOffer {
public:
    explicit TurnOffer(TurnPtr turn)
        : tenant_(turn->conversation.name.tenant), tokens_(reusable_tokens_missing(*turn)), turn_(std::move(turn)) {}

    /// Of the tokens whose keys may be stored, those that have none yet.
    static int64_t reusable_tokens_missing(const Turn& turn) { return std::ssize(turn.reusable()) - turn.kv.tokens(); }

    /// By the store, whose the turn is from now on. False: the session has it again.
    bool take() { return claim(State::taken); }
    /// By the store, which has taken it: it is free again until the store takes it anew. The session should leave it
    /// there for so many seconds. False: it was called off. Then it does not wait, and the store must answer now.
    bool wait(double seconds) {
        patience_ = seconds;
        state_ = State::waits;
        if (!called_off_) return true;
        static_cast<void>(take());  // unless its session has it again
        return false;
    }
    /// By the session, which goes on without the store. Null: the store has the turn.
    TurnPtr take_back() { return claim(State::taken_back) ? std::exchange(turn_, nullptr) : nullptr; }
    /// By the session whose turn is over for its user. Null: the store has the turn, and gives it back without letting
    /// it wait.
    TurnPtr call_off() {
        called_off_ = true;
        return take_back();
    }
    /// What `wait` has said since the last time.
    double patience() { return patience_.exchange(0.0); }
    /// For the store after `take`, and for the session once the store has died.
    const TurnPtr& turn() const { return turn_; }
    bool was_taken_back() const { return state_ == State::taken_back; }

    /// These stay as they were when the turn was offered, whoever has it.
    const Tenant& tenant() const { return tenant_; }
    int64_t tokens() const { return tokens_; }

private:
    enum class State : uint8_t { offered, taken, waits, taken_back };
    bool claim(State as) {
        State now = state_;
        while (now == State::offered || now == State::waits)
            if (state_.compare_exchange_weak(now, as)) return true;
        return false;
    }

    const Tenant tenant_;
    const int64_t tokens_;
    std::atomic<State> state_{State::offered};
    std::atomic<double> patience_{0.0};
    std::atomic<bool> called_off_{false};
    TurnPtr turn_;  // its owner's alone
};

using TurnOfferPtr = std::shared_ptr<TurnOffer>;

}  // namespace rondo
