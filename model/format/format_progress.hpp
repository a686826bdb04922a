#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/format/answer_format.hpp"
#include "model/format/grammar_states.hpp"
#include "model/format/sorted_tokens.hpp"

namespace rondo {

/// How far an answer has come in its format, and which tokens may come next. Not shared between threads. The tokens
/// outlive it.
class FormatProgress {
public:
    /// `begin` is a node that AnswerFormat::begin gave. `ends` are ids that end an answer; they may come where the
    /// format may end. All are below `vocabulary`.
    FormatProgress(std::shared_ptr<const AnswerFormat> format, int32_t begin, const SortedTokens& tokens,
                   std::vector<int32_t> ends, int64_t vocabulary);

    /// A bit for each id of the vocabulary. Valid until the next call. Empty: no token of the vocabulary goes on.
    std::span<const uint64_t> allowed();
    /// Bytes that a token adds; it was allowed, and does not end the answer.
    void take(std::string_view bytes);
    /// It is complete, and nothing may follow.
    bool is_whole() const { return states_.is_last(state_) && states_.may_end(state_); }

private:
    using State = GrammarStates::State;
    using Bits = std::vector<uint64_t>;

    Bits bits_of(State state);
    void set_tokens(State state, Bits& bits);

    std::shared_ptr<const AnswerFormat> format_;
    GrammarStates states_;
    State state_;
    const SortedTokens* tokens_;
    std::vector<int32_t> ends_;
    size_t words_;
    std::unordered_map<State, Bits> known_;
    std::vector<State> walked_;  // by bytes of a token, when its bits are made
};

}  // namespace rondo
