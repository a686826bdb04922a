#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/measure/multi_turn/turn_times.hpp"
#include "transport/sse_reader.hpp"

namespace rondo::cli::multi_turn {

/// Reads the events of one streamed chat completion. It times the pieces of text from the moment it is made, and says
/// at the end whether the answer is whole.
class AnswerStream {
public:
    explicit AnswerStream(int64_t asked_tokens);

    /// False once the answer cannot be whole any more.
    bool take(std::string_view piece);
    Answer finish();

private:
    using Clock = std::chrono::steady_clock;

    void take_event(const SseEvent& event);
    void take_usage(const nlohmann::json& chunk);
    void take_text(const std::string& text);
    void end();
    void fail(std::string kind, std::string message);

    Clock::time_point start_, last_;
    SseReader reader_;
    Answer answer_;
    int64_t pieces_ = 0;
    bool finished_ = false;  ///< the server said why the answer ended, or [DONE]
};

}  // namespace rondo::cli::multi_turn
