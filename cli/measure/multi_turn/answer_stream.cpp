#include "cli/measure/multi_turn/answer_stream.hpp"

#include <initializer_list>
#include <optional>
#include <utility>

#include "cli/server_complaint.hpp"

namespace rondo::cli::multi_turn {

using nlohmann::json;

namespace {

double seconds(std::chrono::steady_clock::duration time) {
    return std::chrono::duration<double>(time).count();
}

/// A member of a member of … `from`, or nothing where the way ends.
const json* at(const json& from, std::initializer_list<const char*> way) {
    const json* here = &from;
    for (const char* name : way) {
        if (!here->is_object()) return nullptr;
        const auto found = here->find(name);
        if (found == here->end()) return nullptr;
        here = &*found;
    }
    return here;
}

std::optional<int64_t> count_at(const json& from, std::initializer_list<const char*> way) {
    const json* const found = at(from, way);
    if (found == nullptr || !found->is_number_integer()) return std::nullopt;
    return found->get<int64_t>();
}

std::string text_at(const json& from, std::initializer_list<const char*> way) {
    const json* const found = at(from, way);
    return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

/// Rondo's counts stand beside OpenAI's, in the details.
std::optional<int64_t> detail(const json& chunk, const char* name) {
    const auto nested = count_at(chunk, {"usage", "prompt_tokens_details", name});
    return nested ? nested : count_at(chunk, {"usage", name});
}

}  // namespace

AnswerStream::AnswerStream(int64_t asked_tokens) : start_(Clock::now()), last_(start_) {
    answer_.times.asked_tokens = asked_tokens;
    answer_.times.gaps_s.reserve(static_cast<size_t>(asked_tokens));
}

bool AnswerStream::take(std::string_view piece) {
    const Status status = reader_.read(piece, [this](const SseEvent& event) { take_event(event); });
    if (!status) fail("answer too large", status.error().message);
    return answer_.times.error.empty();
}

void AnswerStream::take_event(const SseEvent& event) {
    if (event.data == "[DONE]") {
        finished_ = true;
        return;
    }
    const json chunk = json::parse(event.data, nullptr, false);
    if (!chunk.is_object()) return fail("malformed answer", "an event of the stream is not a JSON object");
    if (chunk.contains("error") && !chunk["error"].is_null())
        return fail("error in stream", error_message(chunk["error"]));
    take_usage(chunk);
    const json* const choices = at(chunk, {"choices"});
    if (choices == nullptr || !choices->is_array() || choices->empty()) return;
    const json& choice = choices->front();
    // A model that thinks aloud sends its thoughts apart; they are tokens of the answer like others. Servers call them
    // by one of two names, some by both.
    std::string thought = text_at(choice, {"delta", "reasoning_content"});
    if (thought.empty()) thought = text_at(choice, {"delta", "reasoning"});
    take_text(thought + text_at(choice, {"delta", "content"}));
    if (!text_at(choice, {"finish_reason"}).empty()) end();
}

void AnswerStream::take_usage(const json& chunk) {
    TurnTimes& times = answer_.times;
    if (const auto prompt = count_at(chunk, {"usage", "prompt_tokens"})) times.prompt_tokens = *prompt;
    if (const auto tokens = count_at(chunk, {"usage", "completion_tokens"})) times.answer_tokens = *tokens;
    if (const auto cached = detail(chunk, "cached_tokens")) times.cached_tokens = cached;
    if (const auto restored = detail(chunk, "restored_tokens")) times.restored_tokens = restored;
    if (const auto recomputed = detail(chunk, "recomputed_tokens")) times.recomputed_tokens = recomputed;
    // llama-server says the same in its own words, some versions only there.
    if (const auto cached = count_at(chunk, {"timings", "cache_n"}); cached && !times.cached_tokens) {
        times.cached_tokens = cached;
    }
    if (const auto computed = count_at(chunk, {"timings", "prompt_n"}); computed && !times.recomputed_tokens) {
        times.recomputed_tokens = computed;
    }
}

void AnswerStream::take_text(const std::string& text) {
    if (text.empty()) return;
    const Clock::time_point now = Clock::now();
    if (pieces_ == 0) {
        answer_.times.ttft_s = seconds(now - start_);
    } else {
        answer_.times.gaps_s.push_back(seconds(now - last_));
    }
    last_ = now;
    ++pieces_;
    answer_.text += text;
}

void AnswerStream::end() {
    finished_ = true;
    if (pieces_ == 0) last_ = Clock::now();
}

void AnswerStream::fail(std::string kind, std::string message) {
    if (!answer_.times.error.empty()) return;
    answer_.times.error = std::move(kind);
    answer_.times.message = std::move(message);
}

Answer AnswerStream::finish() {
    TurnTimes& times = answer_.times;
    times.e2e_s = seconds(last_ - start_);
    // Tokens without text count too. When the first came is not known, only when the last had come.
    if (pieces_ == 0) times.ttft_s = times.e2e_s;
    if (times.answer_tokens == 0) times.answer_tokens = pieces_;
    if (!finished_) {
        fail("cut off", "the stream ended before the answer did");
    } else if (times.answer_tokens == 0) {
        fail("empty answer", "an answer without tokens");
    } else if (times.answer_tokens < times.asked_tokens) {
        fail("short answer", std::to_string(times.answer_tokens) + " tokens where " +
                                 std::to_string(times.asked_tokens) + " were asked for");
    }
    return std::move(answer_);
}

}  // namespace rondo::cli::multi_turn
