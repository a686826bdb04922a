#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/turn_text.hpp"

namespace rondo {

/// The turns of a conversation that wait, in the order in which they came, and the text of the first of them. Plain
/// rules: its session has texts made, and tells listeners. Not shared between threads.
class WaitingTurns {
public:
    struct Waiting {
        AskPtr ask;
        double arrived = 0.0;
    };
    /// One that may begin: its text is made, or cannot be.
    struct Ready {
        Waiting turn;
        Result<NewTurn> made;
    };

    void push(AskPtr ask, double now) { turns_.push_back({std::move(ask), now}); }
    bool empty() const { return turns_.empty(); }
    const std::deque<Waiting>& all() const { return turns_; }
    /// Those behind the one whose text is being made: that one counts as under way.
    size_t behind() const { return turns_.size() - (text_ ? 1 : 0); }
    /// The ids of those that `which` says of their asks, the last one first: who takes them out in that order has no
    /// text made in between.
    template <class Which>
    std::vector<TurnId> from_last(const Which& which) const {
        std::vector<TurnId> ids;
        for (auto turn = turns_.rbegin(); turn != turns_.rend(); ++turn)
            if (which(*turn->ask)) ids.push_back(turn->ask->id);
        return ids;
    }

    /// It does not wait any more; its text is dropped. Null: it did not.
    AskPtr take_out(TurnId id) {
        const auto found = std::ranges::find_if(turns_, [id](const Waiting& turn) { return turn.ask->id == id; });
        if (found == turns_.end()) return nullptr;
        if (text_ && text_->turn() == id) text_.reset();
        AskPtr ask = std::move(found->ask);
        turns_.erase(found);
        return ask;
    }
    /// The first of those that are there.
    AskPtr take_first() { return take_out(first()->id); }
    /// All of them, and the text.
    void clear() {
        text_.reset();
        turns_.clear();
    }

    /// There is a first one, and nobody has begun its text.
    bool wants_text() const { return !turns_.empty() && !text_; }
    const AskPtr& first() const { return turns_.front().ask; }
    /// The first one's, if it wants one.
    TurnText& begin_text(std::shared_ptr<TextWorkers> workers) {
        return text_.emplace(first()->id, std::move(workers));
    }
    /// False: nobody wants it any more.
    bool text_is_made(TurnId turn, Result<NewTurn> made) {
        if (!text_ || text_->turn() != turn) return false;
        text_->is_made(std::move(made));
        return true;
    }
    bool is_ready() { return text_ && text_->made(); }
    /// The first one, which is ready.
    Ready take_ready() {
        Ready ready{std::move(turns_.front()), std::move(*text_->made())};
        turns_.pop_front();
        text_.reset();
        return ready;
    }

private:
    std::deque<Waiting> turns_;
    std::optional<TurnText> text_;  // of the first
};

}  // namespace rondo
