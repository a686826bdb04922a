#include "actors/decode.hpp"

#include <algorithm>
#include <utility>

namespace rondo {

Decode::behavior_type Decode::make_behavior() {
    return {
        [this](decode_atom, const TurnPtr& turn, const delta_sink_actor& deltas) {
            auto promise = make_response_promise<StageReply>();
            rows_.push_back({turn, promise, deltas, now(), false});
            step();
            return promise;
        },
        [this](withdraw_atom, TurnId id) {
            for (size_t i = 0; i < rows_.size(); ++i) {
                if (rows_[i].turn->id != id) continue;
                rows_[i].withdrawn = true;
                if (!busy_) leave(i, StageReply::Outcome::refused, make_error(ErrorCode::cancelled, "withdrawn"));
                return;
            }
        },
    };
}

/// A dead actor may be held for minutes by a timer; its turns may not.
void Decode::on_exit() {
    rows_.clear();
    runner_ = nullptr;
    store_ = nullptr;
}

/// Every row of the next step has a place for its token, or somebody is asked for one.
bool Decode::make_room() {
    int64_t short_of = 0;
    for (Row& row : rows_)
        if (!row.turn->kv.set_aside(1)) ++short_of;
    if (short_of == 0) return true;
    busy_ = true;
    request(store_, options_.timeout, room_atom::value, short_of)
        .then(
            [this](bool room) {
                busy_ = false;
                if (!room) preempt();
                step();
            },
            [this](const caf::error&) { quit(caf::exit_reason::unhandled_exception); });
    return false;
}

/// The lowest priority, and of those who have it the last to come: so the first always gets to its end.
void Decode::preempt() {
    const auto victim = std::ranges::min_element(rows_, [](const Row& a, const Row& b) {
        return a.turn->priority != b.turn->priority ? a.turn->priority < b.turn->priority : a.turn->id > b.turn->id;
    });
    if (victim == rows_.end()) return;
    ++victim->turn->timings.preemptions;
    leave(static_cast<size_t>(victim - rows_.begin()), StageReply::Outcome::preempted);
}

void Decode::step() {
    if (busy_) return;
    for (size_t i = rows_.size(); i-- > 0;)
        if (rows_[i].withdrawn) leave(i, StageReply::Outcome::refused, make_error(ErrorCode::cancelled, "withdrawn"));
    if (rows_.empty() || !make_room()) return;
    busy_ = true;
    auto next = std::make_shared<Step>();
    for (const Row& row : rows_) {
        if (next->turns.size() == options_.rows_max) break;
        next->turns.push_back(row.turn);
    }
    request(runner_, options_.timeout, step_atom::value, next)
        .then([this](const StepPtr& done) { stepped(done); },
              // Nobody knows what the device has written: every answer on it fails with this stage.
              [this](const caf::error&) { quit(caf::exit_reason::unhandled_exception); });
}

/// The next step goes out first; what this one made is told while it runs.
void Decode::stepped(const StepPtr& step) {
    busy_ = false;
    if (!step->status) {
        for (size_t i = step->turns.size(); i-- > 0;) leave(i, StageReply::Outcome::refused, step->status.error());
        return this->step();
    }
    std::vector<std::pair<delta_sink_actor, DeltaOf>> news;
    news.reserve(step->turns.size());
    std::vector<size_t> over;
    for (size_t i = 0; i < step->turns.size(); ++i) {  // rows that joined meanwhile stand behind
        Turn& turn = *rows_[i].turn;
        DeltaOf delta{turn.id, {std::move(turn.last.text), {turn.last.id}, {}}};
        if (!turn.last.logprobs.empty()) delta.delta.logprobs.push_back(std::move(turn.last.logprobs));
        news.emplace_back(rows_[i].deltas, std::move(delta));
        if (turn.last.over || static_cast<int64_t>(turn.ids.size()) >= options_.context_tokens) over.push_back(i);
    }
    // A turn's last delta must reach its session before the turn itself.
    for (const size_t i : over) send(news[i].first, std::move(news[i].second));
    for (size_t i = over.size(); i-- > 0;) leave(over[i], StageReply::Outcome::over);
    this->step();
    for (size_t i = 0; i < news.size(); ++i)
        if (!std::ranges::binary_search(over, i)) send(news[i].first, std::move(news[i].second));
}

void Decode::leave(size_t index, StageReply::Outcome outcome, Error error) {
    Row row = std::move(rows_[index]);
    rows_.erase(rows_.begin() + static_cast<ptrdiff_t>(index));
    row.turn->timings.decode += now() - row.started;
    row.promise.deliver(StageReply{outcome, std::move(row.turn), std::move(error)});
}

}  // namespace rondo
