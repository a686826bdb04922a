#include "cli/chat/chat_answer.hpp"

#include <algorithm>

#include "cli/server_complaint.hpp"

namespace rondo::cli {

using nlohmann::json;

namespace {

constexpr size_t other_bytes_max = size_t{1} << 20;

/// The member of that name; null where there is none, or no object it could be in.
const json& member(const json& of, const char* name) {
    static const json none;
    if (!of.is_object()) return none;
    const auto found = of.find(name);
    return found == of.end() ? none : *found;
}

double number(const json& of, const char* name, double otherwise = 0.0) {
    const json& value = member(of, name);
    return value.is_number() ? value.get<double>() : otherwise;
}

int64_t count(const json& of, const char* name) {
    constexpr double exact_max = 9007199254740992.0;
    return static_cast<int64_t>(std::clamp(number(of, name), 0.0, exact_max));
}

std::string text_of(const json& of, const char* name) {
    const json& value = member(of, name);
    return value.is_string() ? value.get<std::string>() : std::string();
}

}  // namespace

bool ChatAnswer::take(std::string_view piece) {
    if (piece.empty()) {
        stopped_ = stopped_ || !on_text_("");
        return !stopped_;
    }
    if (!has_events_ && other_.size() < other_bytes_max) other_ += piece.substr(0, other_bytes_max - other_.size());
    const Status read = reader_.read(piece, [this](const SseEvent& event) { take_event(event); });
    if (!read) fail(read.error().code, read.error().message);
    return fault_ && !stopped_;
}

void ChatAnswer::take_event(const SseEvent& event) {
    if (!has_events_) other_ = {};
    has_events_ = true;
    if (event.data == "[DONE]" || !fault_ || stopped_) return;
    take_object(json::parse(event.data, nullptr, false), "delta");
}

void ChatAnswer::take_object(const json& object, const char* part) {
    if (!object.is_object()) return fail(ErrorCode::corrupt, "a piece of the server's answer is no JSON object");
    if (object.contains("error") && !object["error"].is_null()) {
        const std::string message = error_message(object["error"]);
        return fail(ErrorCode::internal, message.empty() ? "the server failed and does not say why" : message);
    }
    take_figures(object);
    const json& choices = member(object, "choices");
    if (!choices.is_array() || choices.empty()) return;
    const json& message = member(choices.front(), part);
    thought_ = thought_ || !text_of(message, "reasoning_content").empty();
    take_text(text_of(message, "content"));
    const std::string reason = text_of(choices.front(), "finish_reason");
    if (reason.empty()) return;
    ended_ = true;
    end_.outcome = reason == "length" ? TurnOutcome::length : TurnOutcome::stop;
}

void ChatAnswer::take_text(const std::string& text) {
    if (text.empty()) return;
    if (text_.empty() && end_.timings.first_token == 0.0)
        end_.timings.first_token = std::chrono::duration<double>(Clock::now() - start_).count();
    text_ += text;
    stopped_ = stopped_ || !on_text_(text);
}

void ChatAnswer::take_figures(const json& object) {
    // Rondo's own name; other servers name their times otherwise.
    if (const json& times = member(object, "timings"); member(times, "first_token_ms").is_number()) {
        end_.timings.queued = number(times, "queued_ms") / 1e3;
        end_.timings.restore = number(times, "restore_ms") / 1e3;
        end_.timings.prefill = number(times, "prefill_ms") / 1e3;
        end_.timings.decode = number(times, "decode_ms") / 1e3;
        end_.timings.first_token = number(times, "first_token_ms") / 1e3;
        end_.timings.preemptions = static_cast<int>(std::min<int64_t>(count(times, "preemptions"), INT32_MAX));
    }
    if (const json& how = member(object, "attention"); how.is_object()) take_attention(how);
    const json& usage = member(object, "usage");
    if (!usage.is_object()) return;
    end_.usage.prompt_tokens = count(usage, "prompt_tokens");
    end_.usage.completion_tokens = count(usage, "completion_tokens");
    const json& details = member(usage, "prompt_tokens_details");
    end_.usage.cached_tokens = count(details, "cached_tokens");
    end_.usage.restored_tokens = count(details, "restored_tokens");
    end_.usage.recomputed_tokens = count(details, "recomputed_tokens");
}

void ChatAnswer::take_attention(const json& how) {
    const std::string method = text_of(how, "method");
    end_.attention.method = method.empty() ? "dense" : method;
    const auto phase = [&](const std::string& name) {
        // The server gives shares alone, so counts are made up; it leaves out what was not measured.
        const double mass = number(how, (name + "_mass").c_str(), -1.0);
        const double density = std::clamp(number(how, (name + "_density").c_str(), 1.0), 0.0, 1.0);
        return TurnAttention::Phase{static_cast<int64_t>(density * 1e6), 1'000'000, std::max(mass, 0.0),
                                    mass < 0.0 ? 0 : 1};
    };
    end_.attention.prompt = phase("prompt");
    end_.attention.answer = phase("answer");
    const json& rounds = member(how, "rounds");
    if (rounds.is_object())
        end_.attention.rounds = {count(rounds, "earlier"), count(rounds, "chosen"), number(rounds, "mass", 0.0)};
    end_.attention.selections = count(how, "selections");
    end_.attention.lag_steps = static_cast<int>(std::min<int64_t>(count(how, "lag_steps"), INT32_MAX));
}

void ChatAnswer::fail(ErrorCode code, const std::string& message) {
    if (fault_) fault_ = make_error(code, message);
}

Result<TurnEnd> ChatAnswer::finish(bool strict) {
    if (fault_ && !has_events_ && !stopped_) {
        const json whole = json::parse(other_, nullptr, false);
        if (whole.is_object()) take_object(whole, "message");
    }
    if (!fault_) return fault_.error();
    if (!stopped_ && !ended_) {
        if (strict || text_.empty())
            return make_error(ErrorCode::io, "the server ended the answer before it was whole");
        end_.outcome = TurnOutcome::stop;
    }
    if (stopped_) end_.outcome = TurnOutcome::cancelled;
    return end_;
}

}  // namespace rondo::cli
