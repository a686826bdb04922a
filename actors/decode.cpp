#include "actors/decode.hpp"

#include <algorithm>
#include <utility>

#include "actors/when_answered.hpp"

namespace rondo {

Decode::behavior_type Decode::make_behavior() {
    return {
        [this](decode_atom, const TurnPtr& turn, const delta_sink_actor& deltas) {
            auto promise = make_response_promise<StageReply>();
            const RowAt row = rows_.insert(rows_.end(), {turn, promise, deltas, false, false, {}, false, {}});
            if (turn->step_attention != nullptr) {
                turn->step_attention->after_prefill(turn->kv);
                choose(row);
            }
            step();
            return promise;
        },
        [this](withdraw_atom, TurnId id) {
            const RowAt row = std::ranges::find_if(rows_, [id](const Row& one) { return one.turn->id == id; });
            if (row == rows_.end()) return;
            row->withdrawn = true;
            if (!busy_) leave_withdrawn();
        },
        [this](watch_atom, uint64_t step) {
            const Watch::Found found = watch_.look(step);
            if (found == Watch::Found::work) look_later();
            if (found == Watch::Found::late) quit(to_caf(late_device()));
        },
    };
}

/// A dead actor may be held for minutes by a timer; its turns may not.
void Decode::on_exit() {
    stepping_.clear();
    rows_.clear();
    runner_ = nullptr;
    selector_ = nullptr;
    cache_ = nullptr;
}

/// Every row of the next step has a place for its token, or somebody is asked for one.
bool Decode::make_room() {
    int64_t short_of = 0;
    for (Row& row : rows_)
        if (row.steps() && !row.turn->kv.set_aside(1)) ++short_of;
    if (short_of == 0) return true;
    // Whoever is about to leave gives its memory back first; then there is another step.
    if (std::ranges::any_of(rows_, [](const Row& row) { return row.leaving.has_value(); })) return false;
    busy_ = true;
    when_answered(
        request(cache_, options_.timeout, room_atom::value, short_of),
        [this](bool room) {
            busy_ = false;
            if (!room) preempt();
            step();
        },
        [this](const caf::error& error) { quit(error); });
    return false;
}

/// The lowest priority, and of those who have it the last to come: so the first always gets to its end. One that is
/// alone comes back to rounds in no more blocks than they fill (see Cache::take).
void Decode::preempt() {
    if (std::ranges::any_of(rows_, [](const Row& row) { return row.leaving.has_value(); })) return;
    const RowAt victim = std::ranges::min_element(rows_, [](const Row& a, const Row& b) {
        return a.turn->priority != b.turn->priority ? a.turn->priority < b.turn->priority : a.turn->id > b.turn->id;
    });
    if (victim == rows_.end()) return;
    ++victim->turn->preemptions;
    leave(victim, StageReply::Outcome::preempted);
}

void Decode::leave_withdrawn() {
    for (RowAt row = rows_.begin(); row != rows_.end();) {
        const RowAt next = std::next(row);
        if (row->withdrawn && !row->leaving)
            leave(row, StageReply::Outcome::refused, make_error(ErrorCode::cancelled, "withdrawn"));
        row = next;
    }
}

void Decode::count_waiting() {
    for (Row& row : rows_) {
        if (row.waits || row.leaving || row.steps()) continue;
        row.waits = true;
        ++row.turn->choices_waited;
    }
}

void Decode::step() {
    if (busy_) return;
    hand_back_made();
    leave_withdrawn();
    count_waiting();
    if (std::ranges::none_of(rows_, &Row::steps) || !make_room()) return;
    busy_ = true;
    auto next = std::make_shared<Step>();
    next->number = ++steps_;
    stepping_.clear();
    for (RowAt row = rows_.begin(); row != rows_.end() && stepping_.size() < options_.rows_max; ++row) {
        if (!row->steps()) continue;
        stepping_.push_back(row);
        next->turns.push_back(row->turn);
        if (row->turn->step_attention != nullptr) row->turn->step_attention->before_step(row->turn->kv);
    }
    if (watch_.begin()) look_later();
    request(runner_, caf::infinite, step_atom::value, next)
        .then([this](const StepPtr& done) { stepped(done); },
              // Nobody knows what the device has written: every answer on it fails with this stage.
              [this](const caf::error& error) { quit(error); });
}

void Decode::look_later() {
    delayed_send(this, options_.timeout, watch_atom::value, watch_.piece());
}

/// The next step goes out first; what this one made is told while it runs.
void Decode::stepped(const StepPtr& step) {
    watch_.end();
    busy_ = false;
    hand_back_made();
    if (!step->status) {
        for (const RowAt row : stepping_) leave(row, StageReply::Outcome::refused, step->status.error());
        return this->step();
    }
    std::vector<std::pair<delta_sink_actor, DeltaOf>> news;
    news.reserve(stepping_.size());
    for (const RowAt row : stepping_) {
        Turn& turn = *row->turn;
        DeltaOf delta{turn.id, {std::move(turn.last.text), {turn.last.id}, {}}};
        if (!turn.last.logprobs.empty()) delta.delta.logprobs.push_back(std::move(turn.last.logprobs));
        // A turn's last delta must reach its session before the turn itself.
        if (turn.last.over || static_cast<int64_t>(turn.ids.size()) >= options_.context_tokens) {
            if (turn.step_attention != nullptr) turn.step_attention->after_last_step(turn.kv);
            send(row->deltas, std::move(delta));
            leave(row, StageReply::Outcome::over);
            continue;
        }
        news.emplace_back(row->deltas, std::move(delta));
        if (turn.step_attention == nullptr) continue;
        turn.step_attention->after_step(turn.kv);
        choose(row);
    }
    this->step();
    for (auto& [sink, delta] : news) send(sink, std::move(delta));
}

/// If a choice of the turn's keys has just begun, the selector makes it.
void Decode::choose(RowAt row) {
    std::unique_ptr<Choice> choice = row->turn->step_attention->take_begun();
    if (choice == nullptr) return;
    const uint64_t due_step = steps_ + static_cast<uint64_t>(row->turn->step_attention->steps_left());
    auto job =
        std::make_shared<ChoiceJob>(ChoiceJob{row->turn->runtime, row->turn->id, due_step, std::move(choice), {}, 0.0});
    row->selecting = true;
    // Others may be before it, and a prompt's piece before each of theirs: the selector limits each piece, the turn's
    // deadline the wait. Should the selector die, the supervisor ends this stage too.
    request(selector_, caf::infinite, select_atom::value, std::move(job))
        .then([this, row](const ChoiceJobPtr& made) { chosen(row, made); },
              [this](const caf::error& error) { quit(error); });
}

/// While a step is under way its turns are the runner's: what has come back for one of them waits for its end.
void Decode::chosen(RowAt row, const ChoiceJobPtr& job) {
    row->made = job;
    if (row->leaving) {  // so no step has it
        Leaving leaving = std::move(*row->leaving);
        leave(row, leaving.outcome, std::move(leaving.error));
    }
    step();
}

void Decode::hand_back_made() {
    for (Row& row : rows_) {
        if (row.made == nullptr) continue;
        row.turn->step_attention->hand_back(std::move(std::exchange(row.made, nullptr)->choice));
        row.selecting = row.waits = false;
    }
}

/// A turn whose choice the selector has leaves when that is back, and its blocks with it: who is let in next counts on
/// them.
void Decode::leave(RowAt row, StageReply::Outcome outcome, Error error) {
    if (row->selecting && !row->made) {
        row->leaving = Leaving{outcome, std::move(error)};
        return send(selector_, withdraw_atom::value, row->turn->id);
    }
    Row left = std::move(*row);
    rows_.erase(row);
    if (left.made) left.turn->step_attention->drop(std::move(left.made->choice));
    if (left.turn->step_attention != nullptr) {
        left.turn->answer_attention = left.turn->step_attention->stats();
        if (outcome == StageReply::Outcome::preempted) left.turn->step_attention->reset();
    }
    left.promise.deliver(StageReply{outcome, std::move(left.turn), std::move(error)});
}

}  // namespace rondo
