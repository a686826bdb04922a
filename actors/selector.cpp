#include "actors/selector.hpp"

#include <algorithm>

#include "actors/when_answered.hpp"

namespace rondo {

Selector::behavior_type Selector::make_behavior() {
    return {
        [this](select_atom, const ChoiceJobPtr& job) {
            auto promise = make_response_promise<ChoiceJobPtr>();
            asked_.push_back({job->turn, job, promise, false, false});
            pump();
            return promise;
        },
        [this](withdraw_atom, TurnId id) {
            const auto found = std::ranges::find(asked_, id, &Asked::turn);
            if (found == asked_.end()) return;
            if (found != asked_.begin()) return answer(found);
            found->withdrawn = true;
            pump();
        },
    };
}

/// A dead actor may be held for minutes by a timer; the blocks of its jobs may not.
void Selector::on_exit() {
    asked_.clear();
    runner_ = nullptr;
    cache_ = nullptr;
}

void Selector::pump() {
    if (busy_ || asked_.empty()) return;
    Asked& first = asked_.front();
    if (first.withdrawn || first.job->choice->complete()) {
        answer(asked_.begin());
        return pump();
    }
    // Copies of chosen keys stream faster than keys that are marked where they lie; what nobody uses makes way.
    if (const BlockCounts blocks = first.job->choice->blocks_short();
        blocks != BlockCounts{} && !first.asked_for_room) {
        first.asked_for_room = true;
        return ask_for_room(blocks);
    }
    busy_ = true;
    when_answered(
        request(runner_, options_.timeout, select_atom::value, std::move(first.job)),
        [this](const ChoiceJobPtr& job) { piece_done(job); },
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

void Selector::piece_done(const ChoiceJobPtr& job) {
    busy_ = false;
    asked_.front().job = job;
    if (!job->status) {  // as far as it came
        answer(asked_.begin());
    } else if (!asked_.front().withdrawn) {
        job->choice->on_host([](int64_t tasks, const std::function<void(int64_t)>& task) {
            for (int64_t i = 0; i < tasks; ++i) task(i);
        });
    }
    pump();
}

void Selector::answer(std::deque<Asked>::iterator at) {
    ChoiceJobPtr job = std::move(at->job);
    auto promise = std::move(at->promise);
    asked_.erase(at);
    promise.deliver(std::move(job));
}

}  // namespace rondo
