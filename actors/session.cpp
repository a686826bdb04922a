#include "actors/session.hpp"

#include <utility>

#include "actors/make_turn.hpp"
#include "actors/when_answered.hpp"

namespace rondo {

namespace {

// Beyond a turn's deadline the session waits this long for a stage to hand it back.
constexpr double grace_seconds = 60.0;

/// Delivers the answer, or the error because of which there can be none.
template <class Answer>
std::function<void(const Status&)> answering(caf::typed_response_promise<Answer> promise,
                                             std::function<Result<Answer>()> answer) {
    return [promise, answer = std::move(answer)](const Status& status) mutable {
        const Result<Answer> answered = status ? answer() : Result<Answer>(status.error());
        if (answered) {
            promise.deliver(*answered);
        } else {
            promise.deliver(to_caf(answered.error()));
        }
    };
}

}  // namespace

Session::behavior_type Session::make_behavior() {
    set_down_handler([this](const caf::down_msg& message) { down(message); });
    if (!is_there_) {
        read();
    } else {
        keep();
    }
    return {
        [this](const DeltaOf& news) {
            if (is_current(news.turn) && current_->flow.state() == TurnFlow::State::decoding) give(news.delta);
        },
        [this](ask_atom, const AskPtr& asked) { ask(asked); },
        [this](cancel_atom, TurnId id) { stop(id, TurnFlow::Event::cancel); },
        [this](expire_atom, TurnId id) { stop(id, TurnFlow::Event::expired); },
        [this](list_atom) {
            return answer_when_there<ConversationInfoPtr>([this] { return Result<ConversationInfoPtr>(info()); });
        },
        [this](rewind_atom, int64_t round) {
            return change([round](Conversation& conversation) { return conversation.rewind(round); });
        },
        [this](drop_atom, const RoundList& rounds) {
            return change([rounds](Conversation& conversation) { return conversation.drop(rounds); });
        },
        [this](title_atom, const std::string& title) {  // with a turn under way too: no prompt has the title in it
            return answer_when_there<ConversationInfoPtr>([=, this]() -> Result<ConversationInfoPtr> {
                RONDO_TRY(conversation_.rename(title));
                keep();
                return info();
            });
        },
        [this](remove_atom) {
            ends_with_turn_ = removed_ = true;
            for (const TurnId id : waiting_.from_last([](const Ask&) { return true; }))
                stop(id, TurnFlow::Event::cancel);
            if (current_) return stop(current_->ask->id, TurnFlow::Event::cancel);
            leave();
        },
        [this](away_atom) { return put_away(); },
        [this](text_atom, const NewTurnPtr& news) { prepared(news); },
        [this](copy_atom) {
            return answer_when_there<ConversationPtr>([this] {
                // A fork may come of it: of what changes later the store hears behind that.
                keeping_ = std::make_shared<KeepSlot>();
                return Result<ConversationPtr>(std::make_shared<const Conversation>(conversation_));
            });
        },
        [this](give_up_atom, uint64_t number) { look_at_offer(number); },
        [this](const StagesPtr& stages) { serve_by(stages); },
        [this](pause_atom) { stages_.reset(); },
    };
}

template <class Answer>
caf::typed_response_promise<Answer> Session::answer_when_there(std::function<Result<Answer>()> answer) {
    auto promise = make_response_promise<Answer>();
    do_or_wait(!is_there_, answering<Answer>(promise, std::move(answer)));
    return promise;
}

void Session::do_or_wait(bool waits, std::function<void(const Status&)> what) {
    waits ? when_ready_.push_back(std::move(what)) : what(Status::ok());
}

/// What waited is done, or hears why it cannot be, before any turn that came later begins.
void Session::do_what_waited(const Status& status) {
    for (const auto& what : std::exchange(when_ready_, {})) what(status);
}

/// While a turn waits or is under way no round goes, and none is put away. One whose user has heard its end counts no
/// more, though a stage may still have it.
Status Session::check_no_turn() const {
    if (waiting_.empty() && (!current_ || drains())) return Status::ok();
    return make_error(ErrorCode::invalid_argument,
                      "the conversation has a turn under way, which must end or be cancelled first");
}

caf::typed_response_promise<ConversationInfoPtr> Session::change(std::function<Status(Conversation&)> how) {
    auto promise = make_response_promise<ConversationInfoPtr>();
    // Whoever asked has heard by then that it was not done in time, and may have asked again. His time began earlier.
    const double too_late = now() + static_cast<double>(answers_within.count()) - 1.0;
    auto changed = answering<ConversationInfoPtr>(
        promise, [this, how = std::move(how), too_late]() -> Result<ConversationInfoPtr> {
            if (now() < too_late) return changed_by(how);
            return make_error(ErrorCode::timeout, "the conversation was busy for too long, and is as it was");
        });
    if (const Status no_turn = check_no_turn(); no_turn) {
        do_or_wait(!is_there_ || current_, std::move(changed));
    } else {
        changed(no_turn);
    }
    return promise;
}

bool Session::is_current(TurnId id) const {
    return current_ && current_->ask->id == id;
}

void Session::ask(const AskPtr& asked) {
    const size_t behind = waiting_.behind();
    if (behind >= options_.waiting_max) {
        Error error = make_error(ErrorCode::overloaded, "this conversation has " + std::to_string(behind) +
                                                            " turns waiting; ask when they are over");
        error.retry_after_s =
            current_ ? now() - current_->record.arrived() : 0.0;  // the turn under way may take as long again
        return refuse(asked, std::move(error));
    }
    monitor(asked->listener);
    waiting_.push(asked, now());
    start_next();
}

/// Terminal events of turns that never began.
void Session::refuse(const AskPtr& ask, Error error) {
    const bool cancelled = error.code == ErrorCode::cancelled;
    if (error.code == ErrorCode::overloaded) ++options_.load->refused;
    TurnEnd end;
    end.outcome = cancelled ? TurnOutcome::cancelled : TurnOutcome::failed;
    end.error = std::move(error);
    if (router_) send(router_, over_atom::value, ask->id, figures());
    send(ask->listener, std::move(end));
    has_heard(ask->listener, current_ && !drains() ? &*current_ : nullptr);
}

void Session::refuse_waiting(const Error& error) {
    while (!waiting_.empty()) refuse(waiting_.take_first(), error);
}

void Session::serve_by(const StagesPtr& stages) {
    stages_ = stages;
    if (!stages_) refuse_waiting(make_error(ErrorCode::internal, "the pipeline has given up"));
    start_next();
}

void Session::start_next() {
    while (!current_ && is_there_ && stages_ && !waiting_.empty()) {
        if (waiting_.wants_text()) prepare_next();
        if (!waiting_.is_ready()) return;  // goes on when it is
        begin_next();
    }
    if (!current_ && waiting_.empty() && ends_with_turn_) leave();
}

void Session::begin_next() {
    auto [turn, made] = waiting_.take_ready();
    const auto& [ask, arrived] = turn;
    if (ask->goes_on && unbegun_)
        return refuse(ask, make_error(ErrorCode::not_found,
                                      "the conversation's first turn became no round; what "
                                      "was said must be sent without going on"));
    if (!made) return refuse(ask, made.error());
    made->turn->conversation = key_;
    TurnRecord record(*ask, *made->turn, arrived, now());
    current_.emplace(ask, stages_, std::move(made->prompt), std::move(made->turn), std::move(record));
    stages_->each([this](const auto& stage) { monitor(stage); });
    happen(TurnFlow::Event::start);
}

void Session::stop(TurnId id, TurnFlow::Event event) {
    const bool expired = event == TurnFlow::Event::expired;
    if (is_current(id)) return happen(event);
    const AskPtr ask = waiting_.take_out(id);
    if (!ask) return;
    refuse(ask, expired ? make_error(ErrorCode::timeout, "the turn's deadline passed before it began")
                        : make_error(ErrorCode::cancelled, "cancelled"));
    start_next();
}

void Session::happen(TurnFlow::Event event) {
    for (const TurnFlow::Action action : current_->flow.on(event)) act(action);
    if (!current_) return;  // an action has gone on to the end
    if (current_->flow.idle()) tell_over();
    if (current_->end) {  // last: whoever hears of it finds everything done
        send(current_->ask->listener, *std::exchange(current_->end, std::nullopt));
        has_heard(current_->ask->listener, nullptr);
    }
    if (!current_->flow.idle()) return;
    let_go();
    start_next();
}

void Session::act(TurnFlow::Action action) {
    switch (action) {
        case TurnFlow::Action::admit:
            return dispatch(TurnStage::admission);
        case TurnFlow::Action::restore:
            return restore();
        case TurnFlow::Action::prefill:
            return dispatch(TurnStage::prefill);
        case TurnFlow::Action::decode:
            return dispatch(TurnStage::decode);
        case TurnFlow::Action::end_done:
            return end_done();
        case TurnFlow::Action::end_cancelled:
            end(TurnOutcome::cancelled, make_error(ErrorCode::cancelled, "cancelled"));
            if (!current_->ask->told_at_end) remember();
            return;
        case TurnFlow::Action::end_expired:
            return end(TurnOutcome::failed, make_error(ErrorCode::timeout, "the turn's deadline passed"));
        case TurnFlow::Action::end_failed:
            return end(TurnOutcome::failed, current_->error);
        case TurnFlow::Action::withdraw:
            return withdraw();
        case TurnFlow::Action::keep_kv:
            return keep_kv();
        case TurnFlow::Action::drop_kv:
            return current_->turn.reset();
    }
}

/// The turn may begin anew at once, and come back before the cache has looked at what it had.
void Session::keep_kv() {
    if (!current_->turn) return;
    current_->turn->stop_waiting();
    if (auto computed = computed_by(*current_->turn))
        send(current_->stages->cache, keep_atom::value, std::move(computed));
}

void Session::dispatch(TurnStage stage) {
    current_->record.enter(stage, now());
    const uint64_t number = ++asked_;
    const auto answered = [this, number](const StageReply& reply) {
        if (number == asked_) replied(reply);
    };
    const auto failed = [this, number](const caf::error& error) {
        if (number != asked_) return;
        current_->error = from_caf(error, "a stage of the pipeline");
        if (error == caf::sec::request_receiver_down && current_->stages == stages_) stages_.reset();
        happen(TurnFlow::Event::lost);
    };
    const caf::timespan timeout = timespan_of(current_->ask->deadline_seconds + grace_seconds);
    const Stages& stages = *current_->stages;
    const TurnPtr turn = std::exchange(current_->turn, nullptr);
    switch (stage) {
        case TurnStage::admission:
            return when_answered(request(stages.admission, timeout, admit_atom::value, turn), answered, failed);
        case TurnStage::restore:
            return offer(turn, timeout, answered, failed);
        case TurnStage::prefill:
            return when_answered(request(stages.prefill, timeout, prefill_atom::value, turn), answered, failed);
        case TurnStage::decode:
            return when_answered(request(stages.decode, timeout, decode_atom::value, turn, delta_sink_actor(this)),
                                 answered, failed);
    }
}

void Session::replied(StageReply reply) {
    using Outcome = StageReply::Outcome;
    UnderWay& turn = *current_;
    turn.turn = std::move(reply.turn);
    turn.record.come_back(*turn.turn, now());
    if (reply.outcome == Outcome::refused) {
        turn.error = std::move(reply.error);
        return happen(TurnFlow::Event::refused);
    }
    if (reply.outcome == Outcome::preempted) {
        turn.running.reset();
        return happen(TurnFlow::Event::preempted);
    }
    const TurnStage stage = turn.record.stage();
    if (stage == TurnStage::admission) return let_in();
    if (stage == TurnStage::restore) return restored();
    if (stage == TurnStage::prefill && turn.ask->warms) return happen(TurnFlow::Event::over);
    if (stage == TurnStage::prefill && turn.flow.state() == TurnFlow::State::prefilling) {
        AnswerPiece& first = turn.turn->last;
        TurnDelta delta{std::move(first.text), {first.id}, {}};
        if (!first.logprobs.empty()) delta.logprobs.push_back(std::move(first.logprobs));
        give(std::move(delta));
    }
    happen(reply.outcome == Outcome::over ? TurnFlow::Event::over : TurnFlow::Event::prefilled);
}

void Session::let_in() {
    current_->running.emplace(options_.load);
    current_->record.let_in(*current_->turn);
    happen(TurnFlow::Event::admitted);
}

void Session::restored() {
    const int64_t again = current_->record.restored(*current_->turn);
    if (again > 0 && current_->flow.state() == TurnFlow::State::restoring) options_.metrics->computed_again(again);
    happen(TurnFlow::Event::restored);
}

void Session::give(TurnDelta delta, bool last) {
    if (const auto gap = current_->record.tell(delta, last, now())) options_.metrics->between_tokens(*gap);
    send(current_->ask->listener, std::move(delta));
}

void Session::end(TurnOutcome outcome, Error error) {
    tell_end(current_->record.end(outcome, std::move(error), !current_->turn, now()));
}

void Session::end_done() {
    if (current_->ask->warms) return end(TurnOutcome::length);
    Answer& answer = current_->turn->answer;
    std::string rest = answer.finish();
    if (!rest.empty() || current_->record.holds_back()) give({std::move(rest), {}, {}}, true);
    const TurnOutcome outcome = answer.reason() == FinishReason::stop ? TurnOutcome::stop : TurnOutcome::length;
    TurnEnd end = current_->record.end(outcome, {}, false, now());
    remember();
    tell_over();  // before its user is: whoever lists then finds the round
    tell_end(std::move(end));
}

void Session::tell_end(TurnEnd end) {
    options_.metrics->turn_over(end, now() - current_->record.arrived());
    // A stage that has it still tells of it last, when the listener has gone.
    if (current_->turn) options_.metrics->attended(current_->record.take_attention());
    current_->end = std::move(end);
}

/// The round becomes part of the conversation, as far as its user was told of it.
void Session::remember() {
    const UnderWay& turn = *current_;
    const std::span<const int32_t> told = turn.record.told_ids();
    if (!turn.ask->ids.empty() || told.empty()) return;
    unbegun_ = false;
    conversation_.answered(turn.ask->messages, turn.record.answer(), turn.prompt, told, turn.record.figures());
    keep();
}

void Session::tell_over() {
    if (!std::exchange(current_->over_told, true) && router_)
        send(router_, over_atom::value, current_->ask->id, figures());
}

/// The turn is over and no stage holds it.
void Session::let_go() {
    current_->turn.reset();
    current_->running.reset();
    const Stages& stages = *current_->stages;
    if (offered_.call_off()) send(stages.store, withdraw_atom::value);  // else it would hold the turn's blocks
    ++asked_;
    stages.each([this](const auto& stage) { demonitor(stage.address()); });
    options_.metrics->attended(current_->record.take_attention());
    send(stages.admission, closed_atom::value, current_->ask->id);
    tell_over();
    current_.reset();
    const Status status = removed_ ? make_error(ErrorCode::not_found, "the conversation was removed") : Status::ok();
    do_what_waited(status);
}

void Session::withdraw() {
    const Stages& stages = *current_->stages;
    const TurnId id = current_->ask->id;
    switch (current_->record.stage()) {
        case TurnStage::admission:
            return send(stages.admission, withdraw_atom::value, id);
        case TurnStage::restore:
            if (TurnPtr turn = offered_.call_off()) is_back(std::move(turn));  // else it is on its way back
            return;
        case TurnStage::prefill:
            return send(stages.prefill, withdraw_atom::value, id);
        case TurnStage::decode:
            return send(stages.decode, withdraw_atom::value, id);
    }
}

}  // namespace rondo
