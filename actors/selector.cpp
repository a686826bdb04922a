#include "actors/selector.hpp"

#include <algorithm>

#include "actors/when_answered.hpp"

namespace rondo {

Selector::behavior_type Selector::make_behavior() {
    return {
        [this](select_atom, const TurnPtr& turn) {
            auto promise = make_response_promise<bool>();
            jobs_.push_back({turn, promise, false, false});
            pump();
            return promise;
        },
        [this](withdraw_atom, TurnId id) {
            const auto job = std::ranges::find_if(jobs_, [id](const Job& one) { return one.turn->id == id; });
            if (job == jobs_.end()) return;
            if (job != jobs_.begin()) return answer(job, false);
            job->withdrawn = true;
            pump();
        },
    };
}

/// A dead actor may be held for minutes by a timer; its turns may not.
void Selector::on_exit() {
    jobs_.clear();
    runner_ = nullptr;
    cache_ = nullptr;
}

void Selector::pump() {
    if (busy_ || jobs_.empty()) return;
    Job& job = jobs_.front();
    if (job.withdrawn) return finish(false);
    if (job.turn->choice->complete()) return finish(true);
    // Copies of chosen keys stream faster than keys that are marked where they lie; what nobody uses makes way.
    if (const BlockCounts blocks = job.turn->choice->blocks_short(); blocks != BlockCounts{} && !job.asked_for_room) {
        job.asked_for_room = true;
        return ask_for_room(blocks);
    }
    busy_ = true;
    when_answered(
        request(runner_, options_.timeout, select_atom::value,
                std::make_shared<SelectionPiece>(SelectionPiece{job.turn, {}, 0.0})),
        [this](const SelectionPiecePtr& piece) { piece_done(piece); },
        // Nobody knows what the device has written: every answer on it fails with this stage.
        [this](const caf::error& error) { quit(error); });
}

void Selector::ask_for_room(const BlockCounts& blocks) {
    busy_ = true;
    const auto go_on = [this] {
        busy_ = false;
        pump();
    };
    when_answered(
        request(cache_, options_.timeout, room_atom::value, blocks), [go_on](bool) { go_on(); },
        [go_on](const caf::error&) { go_on(); });
}

void Selector::piece_done(const SelectionPiecePtr& piece) {
    busy_ = false;
    Job& job = jobs_.front();
    if (!piece->status) return finish(false);
    job.turn->choice->on_host([](int64_t tasks, const std::function<void(int64_t)>& task) {
        for (int64_t i = 0; i < tasks; ++i) task(i);
    });
    pump();
}

void Selector::finish(bool serves) {
    answer(jobs_.begin(), serves);
    pump();
}

void Selector::answer(std::deque<Job>::iterator at, bool serves) {
    auto promise = std::move(at->promise);
    jobs_.erase(at);  // which lets go of the turn before its stage may hand it on
    promise.deliver(serves);
}

}  // namespace rondo
