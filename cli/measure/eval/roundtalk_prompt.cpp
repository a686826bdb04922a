#include "cli/measure/eval/roundtalk_prompt.hpp"

#include <algorithm>

#include "cli/measure/trimmed.hpp"

namespace rondo::cli::eval {

namespace {

/// Where each message's text begins in the rendered prompt: messages stand there in order, unchanged but for blanks
/// around them, which some templates leave out. A dialogue's own messages have none.
Result<std::vector<size_t>> find_messages(const std::string& rendered, std::span<const ChatMessage> messages) {
    std::vector<size_t> begins;
    size_t from = 0;
    for (const ChatMessage& message : messages) {
        const std::string_view text = trimmed(message.content);
        const size_t at = rendered.find(text, from);
        if (at == std::string::npos)
            return make_error(ErrorCode::unsupported, "the model's chat template changes what messages say");
        begins.push_back(at);
        from = at + text.size();
    }
    return begins;
}

/// The tokens that hold these bytes of the text they were made of.
std::pair<int32_t, int32_t> tokens_of(const Tokenizer& tokenizer, std::span<const int32_t> ids, size_t begin,
                                      size_t end) {
    size_t at = 0;
    int32_t first = -1, last = 0;
    for (size_t i = 0; i < ids.size() && at < end; ++i) {
        at += tokenizer.bytes_of(ids[i], true).size();
        if (at > begin && first < 0) first = static_cast<int32_t>(i);
        last = static_cast<int32_t>(i) + 1;
    }
    return {std::max(first, 0), last};
}

}  // namespace

Result<PromptedQuestion> make_question(const Model& model, std::span<const DialogueRound> dialogue, size_t current,
                                       std::span<const std::string> answers, bool history) {
    if (model.spec.eos_ids.empty())
        return make_error(ErrorCode::unsupported, "the model names no token that ends an answer (eos_token_id)");
    std::vector<ChatMessage> messages;
    for (size_t t = history ? 0 : current; t < current; ++t) {
        messages.push_back({"user", dialogue[t].user});
        messages.push_back({"assistant", t < answers.size() ? answers[t] : dialogue[t].answer});
    }
    messages.push_back({"user", dialogue[current].user});
    PromptedQuestion question;
    RONDO_ASSIGN(const std::string rendered, model.render_chat(messages));
    RONDO_ASSIGN(question.prompt, model.encode_chat(messages));
    std::vector<ChatMessage> said;
    for (const ChatMessage& message : messages) {
        said.push_back(message);
        if (message.role != "user") continue;
        // What the model has seen when this round's answer begins; a template may write earlier rounds otherwise later.
        RONDO_ASSIGN(const auto ids, model.encode_chat(said));
        if (ids.size() > question.prompt.size() || !std::equal(ids.begin(), ids.end(), question.prompt.begin()))
            continue;
        question.rounds.push_back(ids.size());
    }
    RONDO_ASSIGN(question.answer, model.tokenizer->encode(dialogue[current].answer, false));
    question.answer.push_back(model.spec.eos_ids.front());
    if (!history) return question;
    RONDO_ASSIGN(const auto begins, find_messages(rendered, messages));
    for (size_t message = 0; message < messages.size(); ++message) {
        if (messages[message].role != "assistant") continue;
        const size_t end = begins[message] + trimmed(messages[message].content).size();
        question.round_ends.push_back(tokens_of(*model.tokenizer, question.prompt, begins[message], end).second);
    }
    for (const GoldSpan& span : dialogue[current].gold) {
        const size_t message = 2 * span.round + (span.in_answer ? 1 : 0);
        if (message >= begins.size()) continue;
        question.gold.push_back(
            tokens_of(*model.tokenizer, question.prompt, begins[message] + span.begin, begins[message] + span.end));
    }
    return question;
}

bool is_answered(const Model& model, const PromptedQuestion& question, std::span<const int32_t> ids) {
    const std::span<const int32_t> right = question.answer;
    if (ids.size() != right.size()) return false;
    return std::ranges::equal(ids.first(ids.size() - 1), right.first(right.size() - 1)) &&
           model.ends_answer(ids.back());
}

}  // namespace rondo::cli::eval
