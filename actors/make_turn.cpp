#include "actors/make_turn.hpp"

#include <algorithm>

#include "actors/places.hpp"
#include "actors/preamble.hpp"
#include "config/limits.hpp"
#include "model/batch.hpp"
#include "model/text/chat_template.hpp"

namespace rondo {

PrefixSpace space_of(const Runtime& runtime, const Tenant& tenant, size_t method, int64_t budget_tokens) {
    const std::string& space = runtime.method_spaces[method];
    if (space.empty()) return tenant;
    const bool is_its_own = budget_tokens == 0 || budget_tokens == runtime.methods[method].decode.budget_tokens;
    return {tenant, space + (is_its_own ? "" : '\n' + std::to_string(budget_tokens))};
}

size_t content_bytes(std::span<const ChatMessage> messages) {
    size_t bytes = 0;
    for (const ChatMessage& message : messages) bytes += message.content.size() + message.more_json.size();
    return bytes;
}

size_t content_bytes_max(const Runtime& runtime) {
    return static_cast<size_t>(runtime.context_tokens) * limits::prompt_bytes_per_token_max;
}

std::string flow_of(const Ask& ask) {
    const ConversationName& name = ask.conversation;
    if (!name.id.empty()) return name.tenant + '\n' + name.id;
    // All answers of one request are one flow, so that it stands in front of nobody.
    return name.tenant + "\n\n" + (ask.places ? 'r' + std::to_string(ask.places->number()) : std::to_string(ask.id));
}

size_t text_bytes(const Ask& ask, const Conversation& conversation) {
    constexpr size_t of_a_message = 256;  // it takes a template as long as so much text
    const auto bytes_of = [](std::span<const ChatMessage> messages) {
        return content_bytes(messages) + messages.size() * of_a_message;
    };
    const size_t tools_bytes = ask.tools ? ask.tools->json().size() : 0;
    size_t bytes =
        ask.template_variables.size() + tools_bytes + bytes_of(ask.messages) + bytes_of(conversation.preamble);
    for (const Round& round : conversation.rounds())
        bytes += bytes_of(round.asked) + round.answer.size() + of_a_message;
    return bytes;
}

namespace {

Status fits_bytes(size_t bytes, const Runtime& runtime) {  // before they are tokenized
    if (bytes <= content_bytes_max(runtime)) return Status::ok();
    return make_error(ErrorCode::context_full, "the message is too long: no " + std::to_string(bytes) +
                                                   " bytes fit into a context of " +
                                                   std::to_string(runtime.context_tokens) + " tokens");
}

Status fits_tokens(int64_t tokens, const Runtime& runtime) {
    if (tokens < runtime.context_tokens) return Status::ok();
    return make_error(ErrorCode::context_full, "the prompt has " + std::to_string(tokens) +
                                                   " tokens; the context holds " +
                                                   std::to_string(runtime.context_tokens) +
                                                   " with the answer; it must be shorter (rewind, or drop rounds)");
}

/// Where the message begins by which a turn's rounds are chosen; 0: there are none to choose from.
int64_t message_begin_of(const Ask& ask, const AttentionMethod& method, const Conversation::Prompt& prompt) {
    const bool has_choice = method.chooses_rounds() && !ask.warms && prompt.round_ends.size() > 1;
    return has_choice ? prompt.round_ends.back() : 0;
}

GivenToTemplate given_by(const Ask& ask) {
    return {ask.template_variables, ask.tools ? ask.tools->json() : std::string()};
}

GenerateOptions options_of(const Ask& ask) {
    GenerateOptions options = ask.options;
    if (ask.tools) options.format = ask.tools->format();
    return options;
}

}  // namespace

Status check_ask(const Ask& ask, const Runtime& runtime) {
    const size_t tools_bytes = ask.tools ? ask.tools->json().size() : 0;
    RONDO_TRY(fits_bytes(tools_bytes + content_bytes(ask.messages), runtime));
    RONDO_TRY(fits_tokens(std::ssize(ask.ids), runtime));
    RONDO_TRY(check_texts(ask.messages));
    RONDO_TRY(options_of(ask).check(runtime.model));
    RONDO_TRY(check_ids(ask.ids, runtime.model.spec.vocabulary));
    RONDO_ASSIGN(const size_t method, runtime.method(ask.method));
    return runtime.check_budget(method, ask.budget_tokens);
}

Result<NewTurn> make_turn(const Ask& ask, const Conversation& conversation, const RuntimePtr& runtime,
                          const std::stop_token& stop) {
    const Model& model = runtime->model;
    const Tenant& tenant = ask.conversation.tenant;
    Conversation::Prompt prompt;
    std::vector<int32_t> ids = ask.ids;
    if (ids.empty())
        RONDO_TRY(fits_bytes(content_bytes(ask.messages) + content_bytes(conversation.preamble), *runtime));
    if (ask.warms) {
        prompt = conversation.history();
        // Behind a round that was dropped nobody knows the ids yet.
        if (prompt.round_ends.size() < conversation.rounds().size()) {
            RONDO_ASSIGN(prompt, conversation.prompt({}, {}, stop));
        }
        // What stands behind the last round belongs to the next one, which begins otherwise every time.
        if (!prompt.round_ends.empty()) prompt.ids.resize(static_cast<size_t>(prompt.round_ends.back()));
        ids = prompt.ids;
    } else if (ids.empty()) {
        RONDO_ASSIGN(prompt, conversation.prompt(ask.messages, given_by(ask), stop));
        ids = prompt.ids;
    }
    std::vector<int64_t> round_ends = prompt.round_ends;
    if (runtime->chooses_rounds()) {
        const GivenToTemplate given = given_by(ask);
        const int64_t preamble =
            prompt.ids.empty() ? 0 : preamble_tokens(model, conversation, ask.messages, given, ids, stop);
        round_ends = apart_from_preamble(std::move(round_ends), preamble);
    }
    const auto tokens = static_cast<int64_t>(ids.size());
    if (tokens == 0)
        return make_error(ErrorCode::invalid_argument, ask.warms ? "the conversation has no rounds that could be warmed"
                                                                 : "an empty prompt, must be at least one token");
    RONDO_TRY(fits_tokens(tokens, *runtime));
    GenerateOptions options = options_of(ask);
    options.tokens_max = std::min(options.tokens_max, runtime->context_tokens - tokens);
    options.tokens_min = std::min(options.tokens_min, options.tokens_max);
    options.continues_text = options.continues_text || !ask.ids.empty();
    options.thinks_first = ask.tells_thoughts(model);
    RONDO_TRY(check_ids(ids, model.spec.vocabulary));  // a conversation's may come from a disk
    RONDO_ASSIGN(const size_t method, runtime->method(ask.method));
    DecodeAttention decode = runtime->methods[method].decode;
    const int64_t budget_tokens = ask.budget_tokens == decode.budget_tokens ? 0 : ask.budget_tokens;
    if (budget_tokens > 0) decode.budget_tokens = static_cast<int>(budget_tokens);
    Answer answer(model, std::move(options), ids);
    auto turn = std::make_shared<Turn>(Turn{.runtime = runtime,
                                            .id = ask.id,
                                            .conversation = {ask.conversation, 0},
                                            .space = space_of(*runtime, tenant, method, budget_tokens),
                                            .flow = flow_of(ask),
                                            .priority = ask.priority,
                                            .method = method,
                                            .budget_tokens = budget_tokens,
                                            .answers = !ask.warms,
                                            .ids = std::move(ids),
                                            .prompt_tokens = tokens,
                                            .round_ends = std::move(round_ends),
                                            .message_begin = message_begin_of(ask, runtime->methods[method], prompt),
                                            .recomputed_min = StepAttention::prompt_rows(decode),
                                            .kv = SequenceKv(*runtime->pool),
                                            .chunk_rows = 0,
                                            .step_attention = {},
                                            .answer = std::move(answer),
                                            .last = {},
                                            .prompt_attention = {},
                                            .answer_attention = {}});
    return NewTurn{std::move(turn), std::move(prompt)};
}

}  // namespace rondo
