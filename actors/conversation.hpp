#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "actors/conversation_info.hpp"
#include "config/result.hpp"
#include "model/model.hpp"

namespace rondo {

/// What a conversation remembers: its rounds, and the exact ids they were computed with. Knows nothing of KV: what has
/// been computed is found again by these ids. Plain data; not shared between threads.
class Conversation {
public:
    /// A text as it was rendered and the ids that were computed for it, as far as they go beyond another border.
    struct Border {
        int64_t after = -1;  ///< the index of that one, which is earlier; -1: the conversation's beginning
        std::string text;
        std::vector<int32_t> ids;
    };
    static constexpr size_t borders_a_round = 3;  ///< before its answer, behind it, and behind what ended it

    /// All that is remembered.
    struct Parts {
        std::string title;  ///< "": none was given
        std::vector<ChatMessage> preamble;
        std::vector<Round> rounds;
        std::vector<Border> borders;  ///< `borders_a_round` for each round, in the order of the rounds
    };

    explicit Conversation(const Model& model) : model_(&model) {}
    Conversation(const Model& model, Parts parts)
        : preamble(std::move(parts.preamble)),
          model_(&model),
          title_(std::move(parts.title)),
          rounds_(std::move(parts.rounds)),
          borders_(std::move(parts.borders)) {}

    /// A prompt's ids, and its text where that goes beyond what the conversation has ids of.
    struct Prompt {
        std::vector<int32_t> ids;
        int64_t border = -1;    ///< of the conversation, where the new text begins; -1: at the prompt's beginning
        size_t known_ids = 0;   ///< up to there
        std::string text = {};  ///< behind it
        std::vector<int64_t> round_ends = {};  ///< ids up to the ends of rounds, as far as their KV went

        /// Behind the known ids `more` spell the text, which begins at `begin` of one in which answers end there.
        void plan_rounds(std::span<const size_t> ends, size_t begin, std::span<const int32_t> more,
                         const Tokenizer& tokenizer);
    };
    /// The prompt that `messages`, after all that was said, makes. Nothing changes until `answered`. `stop` may be
    /// requested on another thread; the error is then ErrorCode::cancelled.
    Result<Prompt> prompt(const std::vector<ChatMessage>& messages, const GivenToTemplate& given = {},
                          const std::stop_token& stop = {}) const;
    /// All that is known of it, as the beginning of a prompt: up to the last border that has ids. Rounds behind one
    /// that was dropped have none before they are computed anew.
    Prompt history() const;
    /// A round is over: `prompt` was computed, and the user was told `answer`. The prompt was made by this conversation
    /// or by a copy, as it now stands. The answer is what `answer_ids` spell, or less. Where the round is the first,
    /// answers among `messages` end rounds of their own: whoever was forgotten sends what was said again.
    void answered(std::vector<ChatMessage> messages, std::string answer, const Prompt& prompt,
                  std::span<const int32_t> answer_ids, std::optional<TurnFigures> figures = {});

    const std::vector<Round>& rounds() const { return rounds_; }
    const std::vector<Border>& borders() const { return borders_; }
    const std::string& given_title() const { return title_; }  ///< "": none was given
    int64_t tokens() const;
    /// Ids of its prompts that are known.
    int64_t known_tokens() const;
    /// The title that its user gave. Without one, the beginning of the first question; "" for an empty conversation.
    std::string title() const;
    Status rename(std::string title);
    /// What it takes to remember all this, nearly.
    size_t bytes() const;
    /// Messages before the first round (a system prompt).
    std::vector<ChatMessage> preamble;

    /// Forgets round `round` and all after it.
    Status rewind(int64_t round);
    /// Forgets some rounds; those after the first of them will be computed anew.
    Status drop(std::vector<int64_t> rounds);

private:
    /// A place in a rendered text from which on it has to be encoded.
    struct Start {
        int64_t border = -1;
        size_t bytes = 0;
    };

    std::vector<ChatMessage> all_messages() const;
    void take_history(std::vector<ChatMessage>& messages);
    void share_tokens(int64_t tokens);
    Status check_round(int64_t round) const;
    Start known_start_of(std::string_view text) const;
    Prompt prompt_up_to(int64_t border) const;
    Border answered_border(std::string_view answer, std::span<const int32_t> ids) const;
    Border ended_border(std::span<const int32_t> ids) const;

    const Model* model_;
    std::string title_;
    std::vector<Round> rounds_;
    std::vector<Border> borders_;
};

}  // namespace rondo
