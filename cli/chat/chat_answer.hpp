#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "actors/turn_events.hpp"
#include "transport/sse_reader.hpp"

namespace rondo::cli {

/// Reads one answer of a server of OpenAI's chat completions as it comes: a stream of events, or one JSON object where
/// the server knows no streams. Whatever a server sends, it causes an error at worst.
class ChatAnswer {
public:
    using Clock = std::chrono::steady_clock;
    /// Hears each piece of text, and an empty one now and then; false stops.
    using OnText = std::function<bool(std::string_view)>;

    explicit ChatAnswer(const OnText& on_text) : on_text_(on_text), start_(Clock::now()) {}

    /// False: the rest of the answer is of no use.
    bool take(std::string_view piece);
    /// After the last piece of a whole body. An answer that does not say how it ended has ended, unless `strict`.
    Result<TurnEnd> finish(bool strict);

    bool stopped() const { return stopped_; }
    const Status& fault() const { return fault_; }
    const std::string& text() const { return text_; }  ///< so far
    bool thought() const { return thought_; }          ///< whether the model has thought, which is no text
    TurnEnd& end() { return end_; }

private:
    void take_event(const SseEvent& event);
    void take_object(const nlohmann::json& object, const char* part);
    void take_text(const std::string& text);
    void take_figures(const nlohmann::json& object);
    void take_attention(const nlohmann::json& how);
    void fail(ErrorCode code, const std::string& message);

    const OnText& on_text_;
    Clock::time_point start_;
    SseReader reader_;
    std::string other_;  ///< what came before any event: perhaps the JSON of a server without streams
    bool has_events_ = false, stopped_ = false, ended_ = false, thought_ = false;
    Status fault_;
    std::string text_;
    TurnEnd end_;
};

}  // namespace rondo::cli
