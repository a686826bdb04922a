#include "cli/measure/attention/dialogue.hpp"

#include <algorithm>
#include <optional>

#include "cli/measure/trimmed.hpp"

namespace rondo::cli::attention {

namespace {

using Messages = std::vector<ChatMessage>;

/// What the template prints of the messages alone, if that begins `all`.
std::optional<size_t> end_of(const Model& model, const Messages& messages, const std::string& all) {
    ChatTemplateInput input;
    input.messages = messages;
    input.add_generation_prompt = false;
    input.bos_token = model.bos_token;
    input.eos_token = model.eos_token;
    const Result<std::string> text = model.chat_template->render(input);
    if (!text.is_ok() || !all.starts_with(*text)) return std::nullopt;
    return text->size();
}

/// Bytes of the prompt's text.
struct TextBorders {
    std::vector<size_t> rounds;  ///< where each user's message begins, with what the template puts before it
    size_t last_words = 0;       ///< where the words of the last one begin
};

/// Finds them.
class Borders {
public:
    Borders(const Model& model, const Messages& messages, const std::string& text)
        : model_(model), messages_(messages), text_(text) {}

    Result<TextBorders> find() const {
        Messages before;
        TextBorders found;
        std::vector<size_t>& begins = found.rounds;
        std::optional<size_t> header;  // bytes of what stands before a user's words
        size_t from = 0;
        for (const ChatMessage& message : messages_) {
            const std::string_view said = trimmed(message.content);
            if (message.role == "user") {
                const std::optional<size_t> border = before.empty() ? std::nullopt : end_of(model_, before, text_);
                const size_t at = text_.find(said, std::max(from, border.value_or(0)));
                if (at == std::string::npos)
                    return make_error(ErrorCode::unsupported, "the model's chat template changes what users say");
                begins.push_back(border.value_or(at));
                if (border) header = at - *border;
                found.last_words = at;
                from = at + said.size();
            } else if (const size_t at = text_.find(said, from); at != std::string::npos) {
                from = at + said.size();
            }
            before.push_back(message);
        }
        // Before the first message stands only what the template prints of itself.
        if (messages_.front().role == "user") begins[0] = header && *header <= begins[0] ? begins[0] - *header : 0;
        return found;
    }

private:
    const Model& model_;
    const Messages& messages_;
    const std::string& text_;
};

/// Without the last answer.
Messages asked_in(const Dialogue& dialogue) {
    Messages asked = dialogue.messages;
    if (dialogue.has_answer()) asked.pop_back();
    return asked;
}

/// How many tokens both begin with.
size_t common_tokens(std::span<const int32_t> a, std::span<const int32_t> b) {
    return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

size_t Dialogue::rounds() const {
    return static_cast<size_t>(std::ranges::count(messages, "user", &ChatMessage::role));
}

Result<size_t> count_tokens(const Model& model, const Dialogue& dialogue) {
    RONDO_ASSIGN(const auto prompt, model.encode_chat(asked_in(dialogue)));
    if (!dialogue.has_answer()) return prompt.size();
    RONDO_ASSIGN(const auto answer, model.tokenizer->encode(dialogue.messages.back().content, false));
    return prompt.size() + answer.size();
}

Result<DialogueTokens> tokenize(const Model& model, const Dialogue& dialogue) {
    const Messages asked = asked_in(dialogue);
    DialogueTokens tokens;
    tokens.name = dialogue.name;
    tokens.evidence = dialogue.evidence;
    RONDO_ASSIGN(const std::string text, model.render_chat(asked));
    RONDO_ASSIGN(tokens.ids, model.tokenizer->encode(text, true));
    tokens.prompt = tokens.ids.size();
    const auto token_at = [&](size_t byte) -> Result<size_t> {
        RONDO_ASSIGN(const auto before, model.tokenizer->encode(std::string_view(text).substr(0, byte), true));
        return common_tokens(tokens.ids, before);
    };
    RONDO_ASSIGN(const TextBorders borders, Borders(model, asked, text).find());
    for (const size_t border : borders.rounds) {
        RONDO_ASSIGN(const size_t begin, token_at(border));
        tokens.round_begins.push_back(begin);
    }
    RONDO_ASSIGN(tokens.question_begin, token_at(borders.last_words));
    Messages said;
    for (const ChatMessage& message : asked) {
        said.push_back(message);
        if (message.role != "user") continue;
        RONDO_ASSIGN(const auto ids, model.encode_chat(said));
        const size_t end = common_tokens(tokens.ids, ids);  // a template may write earlier rounds otherwise later
        if (end > (tokens.turn_ends.empty() ? 0 : tokens.turn_ends.back())) tokens.turn_ends.push_back(end);
    }
    if (dialogue.has_answer()) {
        RONDO_ASSIGN(const auto answer, model.tokenizer->encode(dialogue.messages.back().content, false));
        tokens.ids.insert(tokens.ids.end(), answer.begin(), answer.end());
    }
    return tokens;
}

}  // namespace rondo::cli::attention
