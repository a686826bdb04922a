#include "actors/decode.hpp"

#include <utility>
#include <vector>

#include "actors/when_answered.hpp"

namespace rondo {

Decode::behavior_type Decode::make_behavior() {
    return {
        [this](decode_atom, const TurnPtr& turn, const delta_sink_actor& deltas) {
            auto promise = make_response_promise<StageReply>();
            askers_[turn->id] = {promise, deltas};
            batch_.join(turn);
            choose(turn->id);
            step();
            return promise;
        },
        [this](withdraw_atom, TurnId id) {
            if (batch_.withdraw(id) && !busy_) leave_withdrawn();
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
    batch_.clear();
    askers_.clear();
    runner_ = nullptr;
    selector_ = nullptr;
    cache_ = nullptr;
}

/// Every row of the next step has a place for its token, or somebody is asked for one.
bool Decode::make_room() {
    const BlockCounts short_of = batch_.set_places_aside();
    if (short_of == BlockCounts{}) return true;
    if (batch_.is_leaving()) return false;  // then there is another step
    busy_ = true;
    when_answered(
        request(cache_, options_.timeout, room_atom::value, short_of),
        [this](bool room) {
            busy_ = false;
            if (const auto victim = room ? std::nullopt : batch_.to_preempt())
                leave(*victim, StageReply::Outcome::preempted);
            step();
        },
        [this](const caf::error& error) { quit(error); });
    return false;
}

void Decode::leave_withdrawn() {
    for (const TurnId id : batch_.withdrawn())
        leave(id, StageReply::Outcome::refused, make_error(ErrorCode::cancelled, "withdrawn"));
}

void Decode::step() {
    if (busy_) return;
    batch_.take_back_choices();
    leave_withdrawn();
    if (!batch_.can_step() || !make_room()) return;
    busy_ = true;
    auto next = std::make_shared<Step>();
    next->number = batch_.begin_step(next->turns);
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
    batch_.take_back_choices();
    for (const Step::Refused& row : step->refused) leave(row.turn->id, StageReply::Outcome::refused, row.error);
    if (!step->status) {
        for (const TurnPtr& turn : step->turns) leave(turn->id, StageReply::Outcome::refused, step->status.error());
        return this->step();
    }
    std::vector<std::pair<delta_sink_actor, DeltaOf>> news;
    news.reserve(step->turns.size());
    for (const TurnPtr& turn : step->turns) {
        const TurnId id = turn->id;
        DeltaOf delta{id, {std::move(turn->last.text), {turn->last.id}, {}}};
        if (!turn->last.logprobs.empty()) delta.delta.logprobs.push_back(std::move(turn->last.logprobs));
        const delta_sink_actor& deltas = askers_.at(id).deltas;
        if (turn->is_over()) {  // its last delta must reach its session before the turn itself
            send(deltas, std::move(delta));
            leave(id, StageReply::Outcome::over);
            continue;
        }
        news.emplace_back(deltas, std::move(delta));
        choose(id);
    }
    this->step();
    for (auto& [sink, delta] : news) send(sink, std::move(delta));
}

/// If the runner has just begun a choice of the turn's keys, the selector makes it.
void Decode::choose(TurnId id) {
    ChoiceJobPtr job = batch_.begin_choice(id);
    if (job == nullptr) return;
    // Others may be before it, and a prompt's piece before each of theirs: the selector limits each piece, the turn's
    // deadline the wait. Should the selector die, the supervisor ends this stage too.
    request(selector_, caf::infinite, select_atom::value, std::move(job))
        .then(
            [this](const ChoiceJobPtr& made) {
                if (auto left = batch_.end_choice(made)) hand_back(std::move(*left));
                step();
            },
            [this](const caf::error& error) { quit(error); });
}

/// A turn whose choice the selector has leaves when that is back, and its blocks with it: who is let in next counts on
/// them.
void Decode::leave(TurnId id, StageReply::Outcome outcome, Error error) {
    if (auto left = batch_.leave(id, outcome, std::move(error))) return hand_back(std::move(*left));
    send(selector_, withdraw_atom::value, id);
}

void Decode::hand_back(StageReply reply) {
    auto promise = std::move(askers_.extract(reply.turn->id).mapped().promise);
    promise.deliver(std::move(reply));
}

}  // namespace rondo
