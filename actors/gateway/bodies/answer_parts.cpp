#include "actors/gateway/bodies/answer_parts.hpp"

#include <algorithm>
#include <cmath>

#include "actors/gateway/bodies/event_stream.hpp"

namespace rondo {

namespace {

/// To the microsecond: more digits say nothing and make chunks long.
double milliseconds(double seconds) {
    return std::round(seconds * 1e6) / 1e3;
}

bool begins_prompt(size_t answer, size_t each_prompt) {
    return each_prompt == 0 ? answer == 0 : answer % each_prompt == 0;
}

}  // namespace

OrderedJson finish_reason_json(TurnOutcome outcome, bool calls) {
    switch (outcome) {
        case TurnOutcome::stop:
            return calls ? "tool_calls" : "stop";
        case TurnOutcome::length:
            return "length";
        case TurnOutcome::cancelled:
        case TurnOutcome::failed:
            break;
    }
    return nullptr;
}

Error error_of(const TurnEnd& end) {
    if (end.outcome == TurnOutcome::cancelled) return make_error(ErrorCode::cancelled, "the answer was cancelled");
    return end.error;
}

TurnUsage usage_of(std::span<const FinishedAnswer> answers, size_t each_prompt) {
    TurnUsage sum;
    for (size_t i = 0; i < answers.size(); ++i) {
        const TurnUsage& one = answers[i].end.usage;
        sum.completion_tokens += one.completion_tokens;
        sum.thought_tokens += one.thought_tokens;
        if (!begins_prompt(i, each_prompt)) continue;
        sum.prompt_tokens += one.prompt_tokens;
        sum.cached_tokens += one.cached_tokens;
        sum.restored_tokens += one.restored_tokens;
        sum.recomputed_tokens += one.recomputed_tokens;
    }
    return sum;
}

TurnTimings timings_of(std::span<const FinishedAnswer> answers) {
    TurnTimings all;
    for (const FinishedAnswer& answer : answers) {
        const TurnTimings& one = answer.end.timings;
        for (const auto stage : {&TurnTimings::queued, &TurnTimings::restore, &TurnTimings::prefill,
                                 &TurnTimings::decode, &TurnTimings::first_token}) {
            all.*stage = std::max(all.*stage, one.*stage);
        }
        all.preemptions += one.preemptions;
    }
    return all;
}

OrderedJson usage_json(const TurnUsage& usage) {
    OrderedJson json{{"prompt_tokens", usage.prompt_tokens},
                     {"completion_tokens", usage.completion_tokens},
                     {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
                     {"prompt_tokens_details",
                      {{"cached_tokens", usage.cached_tokens},
                       {"restored_tokens", usage.restored_tokens},
                       {"recomputed_tokens", usage.recomputed_tokens}}}};
    if (usage.thought_tokens > 0) json["completion_tokens_details"] = {{"reasoning_tokens", usage.thought_tokens}};
    return json;
}

OrderedJson timings_json(const TurnTimings& timings) {
    return {{"queued_ms", milliseconds(timings.queued)},           {"restore_ms", milliseconds(timings.restore)},
            {"prefill_ms", milliseconds(timings.prefill)},         {"decode_ms", milliseconds(timings.decode)},
            {"first_token_ms", milliseconds(timings.first_token)}, {"preemptions", timings.preemptions}};
}

TurnAttention attention_of(std::span<const FinishedAnswer> answers, size_t each_prompt) {
    TurnAttention sum;
    if (answers.empty()) return sum;
    const auto add = [](TurnAttention::Phase& to, const TurnAttention::Phase& phase) {
        to.attended += phase.attended;
        to.causal += phase.causal;
        to.mass += phase.mass;
        to.masses += phase.masses;
    };
    // The mass is that of all prompts by their rounds.
    const auto add_rounds = [](TurnAttention::Rounds& to, const TurnAttention::Rounds& more) {
        const auto all = static_cast<double>(to.earlier + more.earlier);
        if (all == 0.0) return;
        to.mass = (to.mass * static_cast<double>(to.earlier) + more.mass * static_cast<double>(more.earlier)) / all;
        to.earlier += more.earlier;
        to.chosen += more.chosen;
    };
    sum = answers.front().end.attention;
    for (size_t i = 1; i < answers.size(); ++i) {
        const TurnAttention& one = answers[i].end.attention;
        if (begins_prompt(i, each_prompt)) {
            add(sum.prompt, one.prompt);
            add_rounds(sum.rounds, one.rounds);
        }
        add(sum.answer, one.answer);
        sum.selections += one.selections;
        sum.given_up += one.given_up;
        sum.waited += one.waited;
    }
    return sum;
}

OrderedJson attention_json(const TurnAttention& attention) {
    OrderedJson json{{"method", attention.method}};
    if (attention.method == "dense") return json;
    if (attention.budget_tokens > 0) json["budget_tokens"] = attention.budget_tokens;
    const auto add = [&json](const std::string& name, const TurnAttention::Phase& phase) {
        if (phase.causal > 0) json[name + "_density"] = phase.density();
        if (phase.masses > 0) json[name + "_mass"] = phase.mass_held();
    };
    add("prompt", attention.prompt);
    add("answer", attention.answer);
    if (attention.rounds.earlier > 0) {
        json["rounds"] = {{"earlier", attention.rounds.earlier},
                          {"chosen", attention.rounds.chosen},
                          {"mass", attention.rounds.mass}};
    }
    json["selections"] = attention.selections;
    if (attention.given_up > 0) json["given_up"] = attention.given_up;
    if (attention.waited > 0) json["waited"] = attention.waited;
    json["lag_steps"] = attention.lag_steps;
    return json;
}

OrderedJson head_json(const AnswerHead& head, const char* object) {
    return {{"id", head.id}, {"object", object}, {"created", head.created_s}, {"model", head.model}};
}

std::string whole_answer_text(const AnswerHead& head, const char* object, std::span<const FinishedAnswer> answers,
                              const std::function<std::string(size_t index, const FinishedAnswer&)>& text_of) {
    std::string choices;
    for (size_t i = 0; i < answers.size(); ++i) (choices += i == 0 ? '[' : ',') += text_of(i, answers[i]);
    JsonObjectText response;
    const OrderedJson first = head_json(head, object);
    for (const auto& [name, value] : first.items()) response.add(name, value);
    response.add_text("choices", choices.empty() ? "[]" : choices += ']');
    response.add("usage", usage_json(usage_of(answers, head.each_prompt)));
    response.add("timings", timings_json(timings_of(answers)));
    response.add("attention", attention_json(attention_of(answers, head.each_prompt)));
    return std::move(response).take();
}

OrderedJson chunk_json(const AnswerHead& head, const char* object, OrderedJson choice) {
    OrderedJson chunk = head_json(head, object);
    chunk["choices"] = OrderedJson::array({std::move(choice)});
    if (head.include_usage) chunk["usage"] = nullptr;
    return chunk;
}

std::string usage_event(const AnswerHead& head, const char* object, const TurnUsage& usage) {
    if (!head.include_usage) return {};
    OrderedJson chunk = head_json(head, object);
    chunk["choices"] = OrderedJson::array();
    chunk["usage"] = usage_json(usage);
    return stream_event(json_text(chunk));
}

}  // namespace rondo
