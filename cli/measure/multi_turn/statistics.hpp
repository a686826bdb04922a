#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/measure/multi_turn/replay.hpp"

namespace rondo::cli::multi_turn {

struct Summary {
    size_t count = 0;
    double mean = 0.0, p50 = 0.0, p90 = 0.0, p99 = 0.0;
};

Summary summarize(std::vector<double> values);

/// What a request must keep to for it to count as good; 0 asks for nothing.
struct Goals {
    double ttft_ms_max = 0.0, tpot_ms_max = 0.0;
};

/// The figures of a run. Only answers that are as they should be count; the others are in `errors`.
struct Statistics {
    struct Round {
        Summary ttft_ms;
        double prompt_tokens_mean = 0.0;
    };

    Summary ttft_ms, tpot_ms, itl_ms, e2e_ms;
    std::vector<Round> rounds;    ///< by a conversation's turns
    std::vector<double> gaps_ms;  ///< all between pieces of text, ascending
    size_t requests = 0, answers = 0, good_answers = 0;
    std::map<std::string, size_t> errors;
    std::string first_error;
    int64_t prompt_tokens = 0, answer_tokens = 0;
    std::optional<int64_t> cached_tokens, restored_tokens, recomputed_tokens;  ///< as far as the server says
    double seconds = 0.0;
    int64_t turns_skipped = 0, turns_late = 0;

    double per_second(double count) const { return seconds > 0.0 ? count / seconds : 0.0; }
};

Statistics gather(const Replayed& replayed, const Goals& goals);

}  // namespace rondo::cli::multi_turn
