#include "actors/admission.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "actors/when_answered.hpp"

namespace rondo {

namespace {

constexpr auto retry_after = std::chrono::milliseconds(20);

StageReply handed_back(TurnPtr turn, ErrorCode code, std::string why) {
    return {StageReply::Outcome::refused, std::move(turn), make_error(code, std::move(why))};
}

}  // namespace

Admission::behavior_type Admission::make_behavior() {
    return {
        [this](admit_atom, const TurnPtr& turn) {
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
            Waiting waiting{turn, promise};
            if (asking_ || !waiting_.empty() || running() >= options_.running_max) claim(*turn);
            if (turn->preemptions > 0) {
                waiting_.push_front(turn->id, std::move(waiting), turn->priority);
            } else {
                waiting_.push(turn->id, std::move(waiting), turn->flow, turn->priority);
            }
            pump();
            return promise;
        },
        [this](withdraw_atom, TurnId id) {
            if (asking_) {
                withdrawn_.push_back(id);
                return;
            }
            take_back(id);
            pump();
        },
        [this](closed_atom, TurnId id) {
            std::erase_if(running_, [&](const auto& turn) { return turn.first == id; });
            pump();
        },
        [this](pump_atom) {
            if (pumps_at_ && *pumps_at_ <= clock().now()) pumps_at_.reset();
            pump();
        },
    };
}

/// A dead actor may be held for minutes by a timer; its turns may not.
void Admission::on_exit() {
    waiting_ = {};
    running_.clear();
    cache_ = nullptr;
}

size_t Admission::running() {
    std::erase_if(running_, [](const auto& turn) { return turn.second.expired(); });
    return running_.size();
}

void Admission::pump_within(caf::timespan time) {
    const auto at = clock().now() + time;
    if (pumps_at_ && *pumps_at_ <= at) return;
    pumps_at_ = at;
    delayed_send(this, time, pump_atom::value);
}

/// The cache gets a copy: the turn may be taken back and go on elsewhere.
void Admission::claim(const Turn& turn) {
    auto claim = std::make_shared<PromptClaim>();
    claim->turn = turn.id;
    claim->space = turn.space;
    claim->ids.assign(turn.reusable().begin(), turn.reusable().end());
    send(cache_, claim_atom::value, std::move(claim));
}

void Admission::pump() {
    if (asking_ || waiting_.empty()) return;
    if (running() >= options_.running_max) return pump_within(retry_after);  // one that was lost says nothing
    auto admission = std::make_shared<AdmissionDecision>();
    for (const auto& [item, ahead] : waiting_.candidates(options_.candidates_max))
        admission->candidates.push_back({item->turn, ahead});
    const TurnPtr& first = admission->candidates.front().turn;
    admission->may_pass = passes_ < options_.passes_max && first->preemptions == 0;
    admission->running = static_cast<int64_t>(running());
    asking_ = true;
    when_answered(
        request(cache_, options_.timeout, take_atom::value, admission),
        [this, asked = now()](const AdmissionDecisionPtr& answer) { answered(*answer, asked); },
        [this, first](const caf::error& error) {
            // It may still take what was asked, and nobody would hear of it.
            if (error == caf::sec::request_timeout) return quit(error);
            asking_ = false;
            waiting_.remove(first->id)->promise.deliver(
                handed_back(first, ErrorCode::internal, from_caf(error, "the prefix cache").message));
            for (const TurnId id : std::exchange(withdrawn_, {})) take_back(id);
            pump();
        });
}

void Admission::answered(AdmissionDecision& admission, double asked) {
    asking_ = false;
    const TurnPtr& turn = admission.candidates[admission.chosen].turn;
    bool goes_on = true;
    if (admission.outcome == AdmissionDecision::Outcome::let_in) {
        turn->lookup_seconds += now() - asked;
        let_in(admission);
    } else if (admission.outcome == AdmissionDecision::Outcome::later) {
        pump_within(timespan_of(admission.wait_seconds));
        goes_on = false;
    } else if (admission.running == 0) {
        send(cache_, withdraw_atom::value, turn->id);
        waiting_.remove(turn->id)->promise.deliver(
            handed_back(turn, ErrorCode::out_of_memory,
                        "no KV memory for " + std::to_string(turn->ids.size()) +
                            " tokens although nothing else runs; memory.device_kv_mib must be larger"));
    } else {
        goes_on = running() < static_cast<size_t>(admission.running);  // somebody has ended meanwhile
        if (!goes_on) pump_within(retry_after);
    }
    const std::vector<TurnId> withdrawn = std::exchange(withdrawn_, {});
    for (const TurnId id : withdrawn) take_back(id);
    if (goes_on || !withdrawn.empty()) pump();
}

/// What a turn is charged is what it has computed: a long conversation whose history is known costs its new tokens.
void Admission::let_in(AdmissionDecision& admission) {
    const TurnPtr& turn = admission.candidates[admission.chosen].turn;
    if (admission.chosen > 0) {
        ++passes_;
    } else if (turn->preemptions == 0) {
        passes_ = 0;
    }
    Waiting waiting = waiting_.serve(turn->id, static_cast<double>(turn->missing()));
    if (std::erase(withdrawn_, turn->id) > 0) {
        waiting.promise.deliver(handed_back(turn, ErrorCode::cancelled, "withdrawn"));
        return;
    }
    running_.emplace_back(turn->id, turn);
    waiting.promise.deliver(StageReply{StageReply::Outcome::done, turn, {}});
}

void Admission::take_back(TurnId id) {
    auto found = waiting_.remove(id);
    if (!found) return;
    send(cache_, withdraw_atom::value, id);
    found->promise.deliver(handed_back(std::move(found->turn), ErrorCode::cancelled, "withdrawn"));
}

}  // namespace rondo
