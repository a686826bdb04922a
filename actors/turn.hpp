#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/arrival.hpp"
#include "actors/compute_rate.hpp"
#include "actors/conversation_key.hpp"
#include "actors/runtime.hpp"
#include "actors/turn_events.hpp"
#include "memory/prefix_space.hpp"
#include "memory/sequence_kv.hpp"
#include "model/answer.hpp"
#include "model/attention/round_attention.hpp"
#include "model/attention/sparse_prefill.hpp"
#include "model/attention/step_attention.hpp"

namespace rondo {

/// Tokens [begin, end) of a sequence.
struct TokenRange {
    int64_t begin = 0, end = 0;
    int64_t count() const { return end - begin; }
};

/// A turn under way: what it has computed and how it goes on. Handed from stage to stage as a shared pointer, and
/// touched only by the stage that holds it; its blocks go back when the last stage lets go of it.
struct Turn {
    RuntimePtr runtime;
    TurnId id = 0;
    ConversationKey conversation = {};  ///< without a name: of a client who keeps the history himself
    PrefixSpace space;                  ///< whose keys it shares
    std::string flow;                   ///< whom it is served for: tenant and conversation (flow_of)
    int priority = 0;                   ///< higher first
    size_t method = 0;                  ///< of runtime's: how it attends
    int64_t budget_tokens = 0;          ///< of its answer, where that is not the method's own
    bool answers = true;                ///< false: it warms a conversation, and no step follows its prompt

    std::vector<int32_t> ids;   ///< the prompt, then the answer; the last has no key yet while the turn goes on
    int64_t prompt_tokens = 0;  ///< ids before the answer
    std::vector<int64_t> round_ends = {};  ///< of the prompt's earlier rounds, as far as they were computed
    int64_t message_begin = 0;   ///< of the prompt's last round, where earlier ones are chosen by it; 0: none are
    int64_t recomputed_min = 1;  ///< last tokens of the prompt that are computed though their keys may be known
    SequenceKv kv;
    std::shared_ptr<Arrival> arrival = {};          ///< of keys that are read back into `kv`; none: all of it is there
    int64_t restored_tokens = 0;                    ///< whose keys were, the last time it was let in
    int64_t given_up_tokens = 0;                    ///< of those it was let in with: they are read back with others
    TokenRange ahead = {};                          ///< before those that are read back: they are computed meanwhile
    bool waited_in_vain = false;                    ///< for keys from a disk that hangs: all others are computed
    int64_t chunk_rows = 0;                         ///< of the chunk of its prompt that is under way
    std::unique_ptr<StepAttention> step_attention;  ///< which keys its answer attends to; null: all
    std::unique_ptr<RoundAttention> rounds = {};    ///< which rounds its upper layers attend to; null: all
    Answer answer;
    AnswerPiece last;  ///< what the stage just made; the next piece to give out

    ComputedTokens computed;  ///< of its prompts' chunks
    int preemptions = 0;
    int64_t choices_waited = 0;   ///< of keys, that were not ready when they were due
    double lookup_seconds = 0.0;  ///< looking up what is known of its prompt and finding room, when there was some
    SparsePrefillStats prompt_attention;
    StepAttentionStats answer_attention;

    /// Keys still to be computed before the next token can be chosen.
    int64_t missing() const { return static_cast<int64_t>(ids.size()) - kv.tokens() + ahead.count(); }
    /// The ids whose keys may be known before it begins. A message by which rounds are chosen is computed anew.
    std::span<const int32_t> reusable() const {
        int64_t known = std::ssize(ids) - recomputed_min;
        if (message_begin > 0) known = std::min(known, message_begin);
        return std::span(ids).first(static_cast<size_t>(std::max<int64_t>(known, 0)));
    }
    /// How its answer attends.
    DecodeAttention decode() const {
        DecodeAttention decode = runtime->methods[method].decode;
        if (budget_tokens > 0) decode.budget_tokens = static_cast<int>(budget_tokens);
        return decode;
    }
    /// Keys that are on their way are not waited for any more: what has not come is missing again. Nothing may be
    /// computed behind them. Blocks to which the disk may still write are given up.
    void stop_waiting() {
        if (!arrival) return;
        const std::optional<int64_t> come = arrival->whole();
        const int64_t whole = come.value_or(arrival->begin());
        if (whole < arrival->end()) {
            come ? kv.set_back(whole) : kv.truncate(whole);
            restored_tokens -= arrival->end() - whole;
        }
        arrival->give_up();
        arrival.reset();
    }
    /// What was to be computed ahead is not: the keys behind it are no use without it. None may be on its way.
    void leave_ahead() {
        if (ahead.count() == 0) return;
        restored_tokens -= kv.tokens() - ahead.end;
        kv.truncate(ahead.begin);
        ahead = {};
    }
    /// So many of the last keys that it has are read back with others. What came last goes first.
    void give_up(int64_t tokens) {
        const int64_t restored = std::min(tokens, restored_tokens);
        restored_tokens -= restored;
        given_up_tokens += tokens - restored;
    }
    void take(AnswerPiece piece) {
        ids.push_back(piece.id);
        last = std::move(piece);
    }
    /// No step follows the one that made the last piece.
    bool is_over() const { return last.over || std::ssize(ids) >= runtime->context_tokens; }
    /// Its prompt is complete and the first piece taken: a choice of keys may begin, if steps follow. The runner of
    /// `device`, which has computed the prompt's last chunk, calls this.
    void end_prompt(Device& device) {
        if (step_attention != nullptr && answers && !last.over) step_attention->after_prefill(device, kv);
    }
    /// The same after a step. The runner that has done the step calls this.
    void end_step() {
        if (rounds != nullptr) rounds->after_step(kv);
        if (step_attention == nullptr) return;
        is_over() ? step_attention->after_last_step(kv) : step_attention->after_step(kv);
    }
};

using TurnPtr = std::shared_ptr<Turn>;

}  // namespace rondo
