#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rondo::cli::multi_turn {

/// What one turn cost: seconds and tokens; and what went wrong.
struct TurnTimes {
    size_t round = 0;            ///< of its conversation, from 0
    double ttft_s = 0.0;         ///< from sending to the first text
    double e2e_s = 0.0;          ///< from sending to the last text
    std::vector<double> gaps_s;  ///< between pieces of text
    int64_t asked_tokens = 0;
    int64_t prompt_tokens = 0, answer_tokens = 0;  ///< as the server counts them
    std::optional<int64_t> cached_tokens, restored_tokens, recomputed_tokens;
    std::string error;    ///< its kind; "" when the answer is as it should be
    std::string message;  ///< what the error was

    /// Seconds per token after the first.
    std::optional<double> tpot_s() const {
        if (answer_tokens < 2) return std::nullopt;
        return (e2e_s - ttft_s) / static_cast<double>(answer_tokens - 1);
    }
};

struct Answer {
    TurnTimes times;
    std::string text;
};

}  // namespace rondo::cli::multi_turn
