#include "actors/session.hpp"

#include <algorithm>
#include <utility>

#include "actors/make_turn.hpp"
#include "actors/when_answered.hpp"

namespace rondo {

namespace {

// Beyond a turn's deadline the session waits this long for a stage to hand it back.
constexpr double grace_seconds = 60.0;

TurnAttention attention_of(const Turn& turn) {
    const AttentionMethod& method = turn.runtime->methods[turn.method];
    const DecodeAttention decode = turn.decode();
    const SparsePrefillStats& prompt = turn.prompt_attention;
    const StepAttentionStats& answer = turn.answer_attention;
    return {.method = method.name,
            .prompt = {prompt.covered, prompt.causal, prompt.mass, prompt.masses},
            .answer = {answer.attended, answer.causal, answer.mass, answer.masses},
            .selections = answer.selections,
            .given_up = answer.given_up,
            .lag_steps = StepAttention::options_of(decode).lag_steps,
            .waited = turn.choices_waited,
            .budget_tokens = has_budget(decode) ? decode.budget_tokens : 0};
}

}  // namespace

Session::behavior_type Session::make_behavior() {
    set_down_handler([this](const caf::down_msg& message) { down(message); });
    return {
        [this](const DeltaOf& news) {
            if (current_ && news.turn == current_->id && flow_.state() == TurnFlow::State::decoding) give(news.delta);
        },
        [this](ask_atom, const AskPtr& asked) { ask(asked); },
        [this](cancel_atom, TurnId id) { stop(id, TurnFlow::Event::cancel); },
        [this](expire_atom, TurnId id) { stop(id, TurnFlow::Event::expired); },
        [this](list_atom) { return info(); },
        [this](rewind_atom, int64_t round) {
            return change([round](Conversation& conversation) { return conversation.rewind(round); });
        },
        [this](drop_atom, const RoundList& rounds) {
            return change([&rounds](Conversation& conversation) { return conversation.drop(rounds); });
        },
        [this](title_atom, const std::string& title) -> caf::result<ConversationInfoPtr> {
            if (const Status status = conversation_.rename(title); !status) return to_caf(status.error());
            return info();  // with a turn under way too: no prompt has the title in it
        },
        [this](remove_atom) {
            ends_with_turn_ = true;
            while (!waiting_.empty()) stop(waiting_.front().first->id, TurnFlow::Event::cancel);
            if (current_) return stop(current_->id, TurnFlow::Event::cancel);
            quit();
        },
        [this](copy_atom) { return ConversationPtr(std::make_shared<Conversation>(conversation_)); },
        [this](const StagesPtr& stages) { serve_by(stages); },
        [this](pause_atom) { stages_.reset(); },
    };
}

void Session::on_exit() {
    router_ = nullptr;
    stages_.reset();
    serving_.reset();
    current_.reset();
    waiting_.clear();
    turn_.reset();
    running_.reset();
}

void Session::ask(const AskPtr& asked) {
    if (waiting_.size() >= options_.waiting_max) {
        Error error = make_error(ErrorCode::overloaded, "this conversation has " + std::to_string(waiting_.size()) +
                                                            " turns waiting; asking when they are over would be right");
        error.retry_after_s = current_ ? now() - arrived_ : 0.0;  // the turn under way may take as long again
        return refuse(this, asked, std::move(error));
    }
    monitor(asked->listener);
    waiting_.emplace_back(asked, now());
    start_next();
}

/// Terminal events of turns that never began.
void Session::refuse(Session* self, const AskPtr& ask, Error error) {
    const bool cancelled = error.code == ErrorCode::cancelled;
    if (error.code == ErrorCode::overloaded) ++self->options_.load->refused;
    TurnEnd end;
    end.outcome = cancelled ? TurnOutcome::cancelled : TurnOutcome::failed;
    end.error = std::move(error);
    self->send(ask->listener, std::move(end));
    self->demonitor(ask->listener.address());
    if (self->router_) self->send(self->router_, over_atom::value, ask->id, self->figures());
}

void Session::serve_by(const StagesPtr& stages) {
    stages_ = stages;
    while (!stages_ && !waiting_.empty()) {
        const AskPtr ask = std::move(waiting_.front().first);
        waiting_.pop_front();
        refuse(this, ask, make_error(ErrorCode::internal, "the pipeline has given up"));
    }
    start_next();
}

void Session::start_next() {
    while (flow_.idle() && stages_ && !waiting_.empty()) {
        auto [ask, arrived] = std::move(waiting_.front());
        waiting_.pop_front();
        Result<TurnPtr> turn = make_turn(*ask, conversation_, options_.runtime);
        if (!turn) {
            refuse(this, ask, turn.error());
            continue;
        }
        current_ = std::move(ask);
        arrived_ = arrived;
        turn_ = std::move(*turn);
        cancelled_ = over_told_ = false;
        answer_.clear();
        begin_thoughts();
        usage_ = {};
        usage_.prompt_tokens = turn_->prompt_tokens;
        timings_ = {};
        timings_.queued = now() - arrived_;
        attention_ = attention_of(*turn_);
        error_ = {};
        serving_ = stages_;
        monitor(serving_->admission);
        monitor(serving_->prefill);
        monitor(serving_->decode);
        happen(TurnFlow::Event::start);
    }
    if (flow_.idle() && waiting_.empty() && ends_with_turn_) quit();
}

void Session::stop(TurnId id, TurnFlow::Event event) {
    const bool expired = event == TurnFlow::Event::expired;
    if (current_ && current_->id == id) {
        cancelled_ = cancelled_ || (!expired && flow_.state() != TurnFlow::State::draining);
        return happen(event);
    }
    const auto found = std::ranges::find_if(waiting_, [&](const auto& one) { return one.first->id == id; });
    if (found == waiting_.end()) return;
    const AskPtr ask = std::move(found->first);
    waiting_.erase(found);
    refuse(this, ask,
           expired ? make_error(ErrorCode::timeout, "the turn's deadline passed before it began")
                   : make_error(ErrorCode::cancelled, "cancelled"));
    start_next();
}

void Session::happen(TurnFlow::Event event) {
    for (const TurnFlow::Action action : flow_.on(event)) act(action);
    if (current_ && flow_.idle()) {
        let_go();
        start_next();
    }
}

void Session::act(TurnFlow::Action action) {
    switch (action) {
        case TurnFlow::Action::open:
            return dispatch(Stage::admission);
        case TurnFlow::Action::prefill:
            return dispatch(Stage::prefill);
        case TurnFlow::Action::decode:
            return dispatch(Stage::decode);
        case TurnFlow::Action::end_done:
            return end_done();
        case TurnFlow::Action::end_cancelled:
            return end(TurnOutcome::cancelled, make_error(ErrorCode::cancelled, "cancelled"));
        case TurnFlow::Action::end_expired:
            return end(TurnOutcome::failed, make_error(ErrorCode::timeout, "the turn's deadline passed"));
        case TurnFlow::Action::end_failed:
            return end(TurnOutcome::failed, error_);
        case TurnFlow::Action::withdraw:
            return withdraw();
        case TurnFlow::Action::keep_kv:
            if (cancelled_) remember();
            if (turn_ && turn_->kv.tokens() > 0) send(serving_->cache, keep_atom::value, turn_);
            return;
        case TurnFlow::Action::drop_kv:
            return turn_.reset();
    }
}

void Session::dispatch(Stage stage) {
    stage_ = stage;
    entered_ = now();
    const uint64_t number = ++asked_;
    const auto answered = [this, number](const StageReply& reply) {
        if (number == asked_) replied(reply);
    };
    const auto failed = [this, number](const caf::error& error) {
        if (number != asked_) return;
        error_ = from_caf(error, "a stage of the pipeline");
        if (error == caf::sec::request_receiver_down && serving_ == stages_) stages_.reset();
        happen(TurnFlow::Event::lost);
    };
    const auto timeout = caf::timespan(static_cast<int64_t>((current_->deadline_seconds + grace_seconds) * 1e9));
    const Stages& stages = *serving_;
    TurnPtr turn = std::move(turn_);
    turn_.reset();
    switch (stage) {
        case Stage::admission:
            return when_answered(request(stages.admission, timeout, open_atom::value, turn), answered, failed);
        case Stage::prefill:
            return when_answered(request(stages.prefill, timeout, prefill_atom::value, turn), answered, failed);
        case Stage::decode:
            return when_answered(request(stages.decode, timeout, decode_atom::value, turn, delta_sink_actor(this)),
                                 answered, failed);
    }
}

void Session::replied(StageReply reply) {
    using Outcome = StageReply::Outcome;
    const double spent = now() - entered_;
    turn_ = std::move(reply.turn);
    if (stage_ == Stage::admission) {
        timings_.queued += spent - (turn_->restore_seconds - timings_.restore);
        timings_.restore = turn_->restore_seconds;
    } else {
        (stage_ == Stage::prefill ? timings_.prefill : timings_.decode) += spent;
    }
    timings_.preemptions = turn_->preemptions;
    attention_ = attention_of(*turn_);
    if (reply.outcome == Outcome::refused) {
        error_ = std::move(reply.error);
        return happen(TurnFlow::Event::refused);
    }
    if (reply.outcome == Outcome::preempted) {
        running_.reset();
        return happen(TurnFlow::Event::preempted);
    }
    if (stage_ == Stage::admission) {
        running_.emplace(options_.load);
        if (timings_.preemptions == 0) {
            usage_.cached_tokens = turn_->kv.tokens();
            usage_.recomputed_tokens = usage_.prompt_tokens - usage_.cached_tokens;
        } else if (flow_.state() == TurnFlow::State::opening) {
            options_.metrics->computed_again(turn_->missing() - 1);  // the last id never had a key
        }
        return happen(TurnFlow::Event::opened);
    }
    if (stage_ == Stage::prefill && flow_.state() == TurnFlow::State::prefilling) {
        TurnDelta delta{std::move(turn_->last.text), {turn_->last.id}, {}};
        if (!turn_->last.logprobs.empty()) delta.logprobs.push_back(std::move(turn_->last.logprobs));
        give(std::move(delta));
    }
    happen(reply.outcome == Outcome::over ? TurnFlow::Event::over : TurnFlow::Event::prefilled);
}

void Session::begin_thoughts() {
    constexpr size_t looked_at = 16;  // more ids than the tag and line breaks behind it ever take
    thoughts_.reset();
    if (!current_->thoughts_apart || !current_->ids.empty() || !model_.shows_thoughts) return;
    const std::span<const int32_t> prompt(turn_->ids);
    thoughts_.emplace(begins_thought(model_.tokenizer->decode(prompt.last(std::min(prompt.size(), looked_at)), true)));
}

/// Tags that are special tokens are no text, so they are put where they stood.
void Session::tell_apart(TurnDelta& delta, bool last) {
    const bool inside = thoughts_->inside();
    for (const int32_t id : delta.ids) {
        if (current_->options.special_text || id < 0) break;
        if (id == model_.thought_begin_id) delta.text += Thoughts::begin_tag;
        if (id == model_.thought_end_id) delta.text += Thoughts::end_tag;
    }
    Thoughts::Parts parts = thoughts_->push(delta.text);
    if (last) {
        const Thoughts::Parts rest = thoughts_->finish();
        parts.thought += rest.thought;
        parts.answer += rest.answer;
    }
    delta.text = std::move(parts.answer);
    delta.thought = std::move(parts.thought);
    if (inside || thoughts_->inside()) usage_.thought_tokens += std::ssize(delta.ids);
}

void Session::give(TurnDelta delta, bool last) {
    const double at = now();
    if (usage_.completion_tokens == 0) {
        timings_.first_token = at - arrived_;
    } else if (!delta.ids.empty()) {
        options_.metrics->between_tokens(at - last_piece_);
    }
    last_piece_ = at;
    usage_.completion_tokens += static_cast<int64_t>(delta.ids.size());
    answer_ += delta.text;
    if (thoughts_) tell_apart(delta, last);
    send(current_->listener, std::move(delta));
}

void Session::end(TurnOutcome outcome, Error error) {
    if (!turn_) {  // its stage has it still
        double& spent = stage_ == Stage::admission ? timings_.queued
                        : stage_ == Stage::prefill ? timings_.prefill
                                                   : timings_.decode;
        spent += now() - entered_;
    }
    TurnEnd end{outcome, std::move(error), usage_, timings_, attention_};
    told_ = {outcome, usage_, timings_, attention_};
    options_.metrics->turn_over(end, now() - arrived_);
    // A stage that has it still tells of it last, when the listener has gone.
    if (turn_) options_.metrics->attended(std::exchange(attention_, {}));
    send(current_->listener, std::move(end));
    demonitor(current_->listener.address());
}

void Session::end_done() {
    std::string rest = turn_->answer.finish();
    if (!rest.empty() || thoughts_) give({std::move(rest), {}, {}}, true);
    const TurnOutcome outcome = turn_->answer.reason() == FinishReason::stop ? TurnOutcome::stop : TurnOutcome::length;
    told_ = {outcome, usage_, timings_, attention_};
    remember();
    tell_over();  // before its user is: whoever lists then finds the round
    end(outcome);
}

/// The round becomes part of the conversation, as far as its user was told of it.
void Session::remember() {
    if (!current_->ids.empty() || !turn_ || usage_.completion_tokens == 0) return;
    const std::span<const int32_t> ids(turn_->ids);
    const auto prompt = static_cast<size_t>(turn_->prompt_tokens);
    // A stage may have gone on for a step after its user left.
    const std::span<const int32_t> told = ids.subspan(prompt, static_cast<size_t>(usage_.completion_tokens));
    conversation_.answered(current_->messages, answer_, ids.first(prompt), told, current_->template_variables, told_);
}

void Session::tell_over() {
    if (!std::exchange(over_told_, true) && router_) send(router_, over_atom::value, current_->id, figures());
}

/// The turn is over and no stage holds it.
void Session::let_go() {
    turn_.reset();
    running_.reset();
    ++asked_;
    demonitor(serving_->admission.address());
    demonitor(serving_->prefill.address());
    demonitor(serving_->decode.address());
    options_.metrics->attended(attention_);
    send(serving_->admission, closed_atom::value, current_->id);
    tell_over();
    serving_.reset();
    current_.reset();
}

void Session::withdraw() {
    const Stages& stages = *serving_;
    switch (stage_) {
        case Stage::admission:
            return send(stages.admission, withdraw_atom::value, current_->id);
        case Stage::prefill:
            return send(stages.prefill, withdraw_atom::value, current_->id);
        case Stage::decode:
            return send(stages.decode, withdraw_atom::value, current_->id);
    }
}

/// Somebody this conversation depends on is gone: whoever listened, or a stage.
void Session::down(const caf::down_msg& message) {
    const auto is = [&](const auto& actor) { return actor.address() == message.source; };
    for (size_t i = waiting_.size(); i-- > 0;)
        if (is(waiting_[i].first->listener)) stop(waiting_[i].first->id, TurnFlow::Event::cancel);
    if (!current_) return;
    if (is(current_->listener)) return stop(current_->id, TurnFlow::Event::cancel);
    const Stages& stages = *serving_;
    if (!is(stages.admission) && !is(stages.prefill) && !is(stages.decode)) return;
    if (serving_ == stages_) stages_.reset();  // until the router tells of others
    error_ = make_error(ErrorCode::internal, "a stage of the pipeline failed; asking again may help");
    happen(TurnFlow::Event::lost);
}

ConversationInfoPtr Session::info() const {
    return std::make_shared<ConversationInfo>(ConversationInfo{name_.id, conversation_.title(), conversation_.preamble,
                                                               conversation_.tokens(), conversation_.rounds(),
                                                               conversation_.bytes()});
}

ConversationFigures Session::figures() const {
    return figures_of(conversation_);
}

caf::result<ConversationInfoPtr> Session::change(const std::function<Status(Conversation&)>& how) {
    if (current_) {
        return to_caf(make_error(ErrorCode::invalid_argument,
                                 "the conversation has a turn under way; cancelling it first would be right"));
    }
    if (const Status status = how(conversation_); !status) return to_caf(status.error());
    return info();
}

}  // namespace rondo
