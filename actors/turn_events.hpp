#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "model/sampling_params.hpp"
#include "model/tools/tool_use.hpp"

namespace rondo {

using TurnId = uint64_t;

/// How a turn ended. `cancelled` and `failed` are the user's only news of it; the others end an answer as wished.
enum class TurnOutcome : uint8_t { stop, length, cancelled, failed };

/// Where the prompt's keys came from. cached + restored + recomputed = prompt tokens.
struct TurnUsage {
    int64_t prompt_tokens = 0;
    int64_t completion_tokens = 0;
    int64_t cached_tokens = 0;      ///< found on the device
    int64_t restored_tokens = 0;    ///< read back from a lower tier
    int64_t recomputed_tokens = 0;  ///< prefilled
    int64_t thought_tokens = 0;     ///< of completion_tokens, where thoughts are told apart
};

/// Seconds a turn spent in each stage; first_token counts from the turn's arrival. `restore` is what finding its known
/// KV and room for the rest took, `queued` the wait for its conversation's turns before it and for room.
struct TurnTimings {
    double queued = 0.0;
    double restore = 0.0;
    double prefill = 0.0;
    double decode = 0.0;
    double first_token = 0.0;
    int preemptions = 0;
};

/// How a turn attended. Entries are pairs of a query and a key, in one layer and head; of prompts they are counted in
/// some layers of those that a method chooses lines for.
struct TurnAttention {
    struct Phase {
        int64_t attended = 0;  ///< entries
        int64_t causal = 0;    ///< entries there were
        double mass = 0.0;     ///< share of the attention looked at that they held, summed
        int64_t masses = 0;    ///< over how many such shares

        double density() const {
            return causal == 0 ? 1.0 : static_cast<double>(attended) / static_cast<double>(causal);
        }
        double mass_held() const { return masses == 0 ? 1.0 : mass / static_cast<double>(masses); }
    };
    /// Earlier rounds of which some were chosen; of those: their number, and the share of the attention to all.
    struct Rounds {
        int64_t earlier = 0, chosen = 0;
        double mass = 0.0;
    };
    std::string method = "dense";
    Phase prompt, answer;
    int64_t selections = 0;     ///< of keys for the answer
    int64_t given_up = 0;       ///< of them, for want of memory
    int lag_steps = 0;          ///< for which the selection before still served
    int64_t waited = 0;         ///< selections that were not ready when they were due: the answer waited
    int64_t budget_tokens = 0;  ///< of the answer; 0: it attends to everything
    Rounds rounds = {};
};

/// What a conversation keeps of how a turn went.
struct TurnFigures {
    TurnOutcome outcome = TurnOutcome::stop;
    TurnUsage usage;
    TurnTimings timings;
    TurnAttention attention;
};

/// More of an answer. `text` is whole UTF-8 characters and may be empty (text that could still become a stop string is
/// held back).
struct TurnDelta {
    std::string text;
    std::vector<int32_t> ids;
    std::vector<std::vector<TokenLogprob>> logprobs;  ///< by id: the chosen one, then the likeliest; when asked for
    std::vector<ToolCallPiece> calls = {};            ///< of tools, where the turn has some: `text` is without them
    std::string thought = {};  ///< what the model thinks, where the turn tells it apart: `text` is without it then
};

/// The one terminal event of a turn.
struct TurnEnd {
    TurnOutcome outcome = TurnOutcome::failed;
    Error error;         ///< of a failed turn
    bool calls = false;  ///< the answer calls tools, and the last call is complete
    TurnUsage usage;
    TurnTimings timings;
    TurnAttention attention;
};

}  // namespace rondo
