#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "actors/make_turn.hpp"
#include "actors/text_workers.hpp"

namespace rondo {

/// What a turn's text becomes. It is made apart from the session, from a copy of the conversation that stays as it is.
/// Destroyed before it is made, it gives its place among the texts back, and whoever works on it stops soon. Not shared
/// between threads.
class TurnText {
public:
    TurnText(TurnId turn, std::shared_ptr<TextWorkers> workers) : turn_(turn), workers_(std::move(workers)) {}
    TurnText(const TurnText&) = delete;
    TurnText& operator=(const TurnText&) = delete;
    ~TurnText() {
        stop_.request_stop();
        if (place_ && !made_) workers_->withdraw(*place_);
    }

    TurnId turn() const { return turn_; }
    /// Requested once nobody wants it any more.
    std::stop_token stop() const { return stop_.get_token(); }
    /// It has this place, and waits to be made.
    void waits(const TextWorkers::Place& place) { place_ = place; }
    void is_made(Result<NewTurn> made) { made_ = std::move(made); }
    std::optional<Result<NewTurn>>& made() { return made_; }

private:
    const TurnId turn_;
    const std::shared_ptr<TextWorkers> workers_;
    std::stop_source stop_;
    std::optional<TextWorkers::Place> place_;
    std::optional<Result<NewTurn>> made_;
};

}  // namespace rondo
