#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "model/model.hpp"

namespace rondo {

/// A round as its user sees it: the messages that asked, and the answer.
struct Round {
    std::vector<ChatMessage> asked;
    std::string answer;
    int64_t tokens = 0;  ///< its own: prompt and answer, without the rounds before it
};

/// What a conversation remembers: its rounds, and the exact ids they were computed with. Knows nothing of KV: what has
/// been computed is found again by these ids. Plain data; not shared between threads.
class Conversation {
public:
    explicit Conversation(const Model& model) : model_(&model) {}

    /// The prompt that `messages`, after all that was said, makes. Nothing changes until `answered`.
    Result<std::vector<int32_t>> prompt(const std::vector<ChatMessage>& messages) const;
    /// A round is over: `ids` are its prompt, from `prompt`, and the answer's. `exact` says that the answer's text is
    /// what its ids spell, so that they can stand in the next prompt as they are.
    void answered(std::vector<ChatMessage> messages, std::string answer, std::vector<int32_t> ids, bool exact);

    const std::vector<Round>& rounds() const { return rounds_; }
    int64_t tokens() const;
    /// Messages before the first round (a system prompt).
    std::vector<ChatMessage> preamble;

    /// Forgets round `round` and all after it.
    Status rewind(int64_t round);
    /// Forgets some rounds; those after the first of them will be computed anew.
    Status drop(std::vector<int64_t> rounds);

private:
    std::vector<ChatMessage> all_messages() const;
    Status check_round(int64_t round) const;
    /// What this round and those after it were computed with is no beginning of what will be asked any more.
    void forget_ids_from(size_t round);

    /// A beginning of `ids_`, and of the text that they spell.
    struct Known {
        size_t ids = 0, bytes = 0;
    };

    const Model* model_;
    std::vector<Round> rounds_;
    std::vector<Known> known_;  // for each round, what of `ids_` is its own or before it
    std::vector<int32_t> ids_;  // of the first rounds, as they were computed; of all, unless some were taken away
    std::string text_;          // what they were rendered from, answers and end-of-answer tokens included
};

}  // namespace rondo
