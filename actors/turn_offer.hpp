#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "actors/turn.hpp"

namespace rondo {

/// A turn that its session offers to the store. The store takes the turn, or the session takes it back: whoever is
/// first owns the turn, and the other one must not touch it. Safe from any thread.
class TurnOffer {
public:
    explicit TurnOffer(TurnPtr turn)
        : tenant_(turn->conversation.name.tenant), tokens_(reusable_tokens_missing(*turn)), turn_(std::move(turn)) {}

    /// Of the tokens whose keys may be stored, those that have none yet.
    static int64_t reusable_tokens_missing(const Turn& turn) { return std::ssize(turn.reusable()) - turn.kv.tokens(); }

    /// By the store, whose the turn is from now on. False: the session has it again.
    bool take() { return !is_claimed_.exchange(true); }
    /// By the session, which goes on without the store. Null: the store has the turn.
    TurnPtr take_back() { return is_claimed_.exchange(true) ? nullptr : std::exchange(turn_, nullptr); }
    /// For the store after `take`, and for the session once the store has died.
    const TurnPtr& turn() const { return turn_; }

    /// These stay as they were when the turn was offered, whoever has it.
    const Tenant& tenant() const { return tenant_; }
    int64_t tokens() const { return tokens_; }

private:
    const Tenant tenant_;
    const int64_t tokens_;
    std::atomic<bool> is_claimed_{false};
    TurnPtr turn_;  // its owner's alone
};

}  // namespace rondo
