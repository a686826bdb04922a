#include "actors/restore.hpp"

#include <string>

#include "actors/when_answered.hpp"

namespace rondo {

namespace {

constexpr auto retry_after = std::chrono::milliseconds(20);

StageReply handed_back(TurnPtr turn, ErrorCode code, std::string why) {
    return {StageReply::Outcome::refused, std::move(turn), make_error(code, std::move(why))};
}

}  // namespace

Restore::behavior_type Restore::make_behavior() {
    return {
        [this](open_atom, const TurnPtr& turn) {
            auto promise = make_response_promise<StageReply>();
            if (static_cast<int64_t>(turn->ids.size()) >= options_.tokens_max) {
                promise.deliver(
                    handed_back(turn, ErrorCode::out_of_memory,
                                "the conversation's " + std::to_string(turn->ids.size()) +
                                    " tokens need more KV memory than there is; memory.device_kv_mib holds " +
                                    std::to_string(options_.tokens_max)));
                return promise;
            }
            std::erase_if(running_, [&](const auto& before) { return before.first == turn->id; });  // preempted
            const bool begun = turn->preemptions > 0;
            Waiting waiting{turn, promise};
            if (begun) {
                waiting_.push_front(turn->id, std::move(waiting), turn->priority);
            } else {
                waiting_.push(turn->id, std::move(waiting), turn->flow, turn->priority);
            }
            pump();
            return promise;
        },
        [this](withdraw_atom, TurnId id) {
            if (asking_ == id) {  // the store has the turn
                withdrawn_ = true;
                return;
            }
            if (auto found = waiting_.remove(id))
                found->promise.deliver(handed_back(std::move(found->turn), ErrorCode::cancelled, "withdrawn"));
            pump();
        },
        [this](closed_atom, TurnId id) {
            std::erase_if(running_, [&](const auto& turn) { return turn.first == id; });
            pump();
        },
        [this](pump_atom) {
            pump_later_ = false;
            pump();
        },
    };
}

/// A dead actor may be held for minutes by a timer; its turns may not.
void Restore::on_exit() {
    waiting_ = {};
    running_.clear();
    store_ = nullptr;
}

size_t Restore::running() {
    std::erase_if(running_, [](const auto& turn) { return turn.second.expired(); });
    return running_.size();
}

void Restore::pump() {
    if (asking_ != 0 || waiting_.empty()) return;
    if (running() >= options_.running_max) {
        // Whoever ends says so; but one that was lost says nothing.
        if (!pump_later_) delayed_send(this, retry_after, pump_atom::value);
        pump_later_ = true;
        return;
    }
    const TurnPtr turn = waiting_.front().turn;
    asking_ = turn->id;
    withdrawn_ = false;
    const double asked = now();
    // Each of those that run may need a block before the next of them ends.
    when_answered(
        request(store_, options_.timeout, take_atom::value, turn, static_cast<int64_t>(running())),
        [this, turn, asked](bool room) {
            if (room) turn->restore_seconds += now() - asked;
            granted(turn, room);
        },
        [this, turn](const caf::error& error) {
            asking_ = 0;
            waiting_.remove(turn->id)->promise.deliver(
                handed_back(turn, ErrorCode::internal, from_caf(error, "the KV store").message));
            pump();
        });
}

/// What a turn is charged is what it has computed: a long conversation whose history is known costs its new tokens.
/// (One for which there is no room at once holds nothing, and is charged all of its prompt.)
void Restore::granted(const TurnPtr& turn, bool room) {
    asking_ = 0;
    Waiting waiting = waiting_.serve(turn->id, static_cast<double>(turn->missing()));
    if (withdrawn_) {
        waiting.promise.deliver(handed_back(turn, ErrorCode::cancelled, "withdrawn"));
    } else if (room) {
        running_.emplace_back(turn->id, turn);
        waiting.promise.deliver(StageReply{StageReply::Outcome::done, turn, {}});
    } else if (running() == 0) {
        waiting.promise.deliver(
            handed_back(turn, ErrorCode::out_of_memory,
                        "no KV memory for " + std::to_string(turn->ids.size()) +
                            " tokens although nothing else runs; a larger memory.device_kv_mib would be right"));
    } else {
        waiting_.push_front(turn->id, std::move(waiting), turn->priority);
        if (!pump_later_) delayed_send(this, retry_after, pump_atom::value);
        pump_later_ = true;
        return;
    }
    pump();
}

}  // namespace rondo
