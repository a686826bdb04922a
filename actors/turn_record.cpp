#include "actors/turn_record.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "actors/random_id.hpp"

namespace rondo {

namespace {

TurnAttention attention_of(const Turn& turn) {
    const AttentionMethod& method = turn.runtime->methods[turn.method];
    const DecodeAttention decode = turn.decode();
    const SparsePrefillStats& prompt = turn.prompt_attention;
    const StepAttentionStats& answer = turn.answer_attention;
    const RoundStats rounds = turn.rounds == nullptr ? RoundStats{} : turn.rounds->stats();
    const bool steps_choose = answer.causal > 0;  // of the rounds that stay
    return {.method = method.name,
            .prompt = {prompt.covered, prompt.causal, prompt.mass, prompt.masses},
            .answer = {steps_choose ? answer.attended : rounds.attended, steps_choose ? answer.causal : rounds.causal,
                       answer.mass, answer.masses},
            .selections = answer.selections,
            .given_up = answer.given_up,
            .lag_steps = StepAttention::options_of(decode).lag_steps,
            .waited = turn.choices_waited,
            .budget_tokens = has_budget(decode) ? decode.budget_tokens : 0,
            .rounds = {rounds.rounds, rounds.chosen, rounds.mass}};
}

double& spent_in(TurnTimings& timings, TurnStage stage) {
    return stage == TurnStage::admission ? timings.queued
           : stage == TurnStage::restore ? timings.restore
           : stage == TurnStage::prefill ? timings.prefill
                                         : timings.decode;
}

}  // namespace

TurnRecord::TurnRecord(const Ask& ask, const Turn& turn, double arrived, double now)
    : model_(turn.runtime->model),
      special_text_(ask.options.special_text),
      arrived_(arrived),
      entered_(now),
      attention_(attention_of(turn)) {
    usage_.prompt_tokens = turn.prompt_tokens;
    timings_.queued = now - arrived;
    if (ask.tells_thoughts(model_)) begin_thoughts(turn);
    if (ask.tools == nullptr || ask.tools->style() == nullptr) return;
    tools_ = ask.tools;
    calls_.emplace(*tools_->style(), [] { return random_id("call_"); });
}

void TurnRecord::enter(TurnStage stage, double now) {
    stage_ = stage;
    entered_ = now;
}

void TurnRecord::come_back(const Turn& turn, double now) {
    const double spent = now - entered_;
    if (stage_ == TurnStage::admission) {
        timings_.queued += spent - (turn.lookup_seconds - looked_up_);
        timings_.restore += turn.lookup_seconds - looked_up_;
        looked_up_ = turn.lookup_seconds;
    } else {
        spent_in(timings_, stage_) += spent;
    }
    timings_.preemptions = turn.preemptions;
    attention_ = attention_of(turn);
    if (stage_ == TurnStage::prefill) count_restored(turn);
}

void TurnRecord::let_in(const Turn& turn) {
    if (answer_has_begun()) return;
    usage_.cached_tokens = let_in_tokens_ = turn.kv.tokens();
    usage_.restored_tokens = usage_.recomputed_tokens = 0;
}

int64_t TurnRecord::restored(const Turn& turn) {
    if (answer_has_begun()) return turn.missing() - 1;  // the last id never had a key
    count_restored(turn);
    return 0;
}

void TurnRecord::count_restored(const Turn& turn) {
    if (answer_has_begun()) return;
    usage_.cached_tokens = let_in_tokens_ - turn.given_up_tokens;
    usage_.restored_tokens = turn.restored_tokens;
    usage_.recomputed_tokens = usage_.prompt_tokens - usage_.cached_tokens - usage_.restored_tokens;
}

void TurnRecord::begin_thoughts(const Turn& turn) {
    thoughts_.emplace(model_.ends_in_thought(turn.ids));
}

/// Tags that are special tokens are no text, so they are put where they stood.
void TurnRecord::tell_apart(TurnDelta& delta, bool last) {
    const bool inside = thoughts_->inside();
    for (const int32_t id : delta.ids) {
        if (special_text_ || id < 0) break;
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

std::optional<double> TurnRecord::tell(TurnDelta& delta, bool last, double now) {
    std::optional<double> gap;
    if (usage_.completion_tokens == 0) {
        timings_.first_token = now - arrived_;
    } else if (!delta.ids.empty()) {
        gap = now - last_piece_;
    }
    last_piece_ = now;
    usage_.completion_tokens += std::ssize(delta.ids);
    told_ids_.insert(told_ids_.end(), delta.ids.begin(), delta.ids.end());
    answer_ += delta.text;
    if (thoughts_) tell_apart(delta, last);
    if (calls_) tell_calls(delta, last);
    return gap;
}

void TurnRecord::tell_calls(TurnDelta& delta, bool last) {
    CalledTools::Parts parts = calls_->push(delta.text);
    if (last) {
        CalledTools::Parts rest = calls_->finish();
        parts.text += rest.text;
        std::ranges::move(rest.calls, std::back_inserter(parts.calls));
    }
    delta.text = std::move(parts.text);
    delta.calls = std::move(parts.calls);
}

TurnEnd TurnRecord::end(TurnOutcome outcome, Error error, bool held, double now) {
    if (held) spent_in(timings_, stage_) += now - entered_;
    figures_ = {outcome, usage_, timings_, attention_};
    return {outcome, std::move(error), calls_ && calls_->are_whole(), usage_, timings_, attention_};
}

}  // namespace rondo
