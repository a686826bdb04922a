#include "actors/conversation_bytes.hpp"

#include <algorithm>
#include <string>

#include "actors/field_io.hpp"
#include "actors/gateway/bodies/title.hpp"
#include "config/limits.hpp"
#include "memory/store/byte_io.hpp"
#include "memory/store/record_header.hpp"
#include "model/text/chat_template.hpp"

namespace rondo {

namespace {

constexpr double used_at_max = 1e12;  // in 30,000 years
constexpr size_t title_bytes_max = 4 * limits::title_characters_max;
constexpr StoredKind conversation_kind{1, "a stored conversation"};
constexpr StoredKind head_kind{2, "the stored head of a conversation"};

// Stored as a number.
static_assert(static_cast<int>(TurnOutcome::stop) == 0 && static_cast<int>(TurnOutcome::failed) == 3);

// The fields of each part in their order, for FieldWriter and FieldReader.

constexpr auto message_fields = [](auto& io, auto& message) { io(message.role, message.content, message.more_json); };

constexpr auto border_fields = [](auto& io, auto& border) { io(border.after, border.text, border.ids); };

constexpr auto phase_fields = [](auto& io, auto& phase) { io(phase.attended, phase.causal, phase.mass, phase.masses); };

constexpr auto figures_fields = [](auto& io, auto& figures) {
    auto& [outcome, usage, timings, attention] = figures;
    io(outcome);
    io(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.restored_tokens);
    io(usage.recomputed_tokens, usage.thought_tokens);
    io(timings.queued, timings.restore, timings.prefill, timings.decode, timings.first_token, timings.preemptions);
    io(attention.method);
    phase_fields(io, attention.prompt);
    phase_fields(io, attention.answer);
    io(attention.selections, attention.given_up, attention.lag_steps, attention.waited, attention.budget_tokens);
};

/// Borders have no count of their own: there are as many as a round has.
constexpr auto round_fields = [](auto& io, auto& round, auto borders) {
    io.list(round.asked, message_fields);
    io(round.answer, round.tokens);
    io.maybe(round.figures, figures_fields);
    for (auto& border : borders) border_fields(io, border);
};

constexpr auto head_fields = [](auto& io, auto& head) {
    auto& [name, number, used_at, figures] = head;
    io(name.tenant, name.id, number, used_at, figures.tokens, figures.rounds, figures.bytes, figures.title);
};

bool is_possible(const ChatMessage& message) {
    return is_chat_role(message.role);
}

Status check(const Round& round) {
    if (!std::ranges::all_of(round.asked, is_possible))
        return damaged(conversation_kind, "has a message of an unknown role");
    if (round.tokens < 0 || round.tokens > limits::context_tokens_max)
        return damaged(conversation_kind, "has an impossible number of tokens");
    if (round.figures && round.figures->outcome > TurnOutcome::failed)
        return damaged(conversation_kind, "has an impossible outcome");
    return Status::ok();
}

Status check(const Conversation::Parts& parts) {
    if (!parts.title.empty() && !is_title(parts.title)) return damaged(conversation_kind, "has an impossible title");
    if (!std::ranges::all_of(parts.preamble, is_possible))
        return damaged(conversation_kind, "has a message of an unknown role");
    for (const Round& round : parts.rounds) RONDO_TRY(check(round));
    int64_t index = 0;
    for (const Conversation::Border& border : parts.borders)
        if (border.after >= index++) return damaged(conversation_kind, "has a border behind a later one");
    return Status::ok();
}

Status check_border_ids(const std::vector<Conversation::Border>& borders, int64_t vocabulary) {
    const auto is_outside = [&](int32_t id) { return id < 0 || id >= vocabulary; };
    for (const Conversation::Border& border : borders)
        if (std::ranges::any_of(border.ids, is_outside))
            return damaged(conversation_kind, "has an id outside the vocabulary");
    return Status::ok();
}

}  // namespace

uint64_t fingerprint(const Tokenizer& tokenizer) {
    RecordWriter all;
    all.put(tokenizer.vocabulary());
    all.put(static_cast<uint8_t>(tokenizer.strips_first_space()));
    for (int64_t id = 0; id < tokenizer.vocabulary(); ++id) {
        const std::string token = tokenizer.bytes_of(static_cast<int32_t>(id), true);
        all.put(static_cast<uint8_t>(tokenizer.is_special(static_cast<int32_t>(id))));
        all.put(token.size());
        all.put(std::as_bytes(std::span(token)));
    }
    return checksum_of(all.bytes());
}

std::vector<std::byte> write_conversation(const Conversation& conversation, uint64_t tokenizer) {
    constexpr size_t step = Conversation::borders_a_round;
    FieldWriter io(conversation_kind);
    io(tokenizer, conversation.given_title());
    io.list(conversation.preamble, message_fields);
    io(conversation.rounds().size());
    const std::span<const Conversation::Border> borders(conversation.borders());
    for (size_t i = 0; i < conversation.rounds().size(); ++i)
        round_fields(io, conversation.rounds()[i], borders.subspan(i * step, step));
    return io.take();
}

Result<Conversation> read_conversation(const Model& model, std::span<const std::byte> bytes, uint64_t tokenizer) {
    constexpr size_t step = Conversation::borders_a_round;
    RONDO_ASSIGN(FieldReader io, FieldReader::open(conversation_kind, bytes));
    Conversation::Parts parts;
    uint64_t written_with = 0, rounds = 0;
    io(written_with, parts.title);
    io.list(parts.preamble, message_fields);
    io(rounds);
    if (rounds > static_cast<uint64_t>(limits::rounds_max))
        return damaged(conversation_kind, "has an impossible number of rounds");
    for (uint64_t i = 0; i < rounds && io.is_whole(); ++i) {
        parts.borders.resize(parts.borders.size() + step);
        round_fields(io, parts.rounds.emplace_back(), std::span(parts.borders).last(step));
    }
    RONDO_TRY(io.check_end());
    RONDO_TRY(check(parts));
    if (written_with != tokenizer) parts.borders.assign(parts.borders.size(), Conversation::Border{});
    RONDO_TRY(check_border_ids(parts.borders, model.spec.vocabulary));
    return Conversation(model, std::move(parts));
}

std::vector<std::byte> write_head(const ConversationHead& head) {
    FieldWriter io(head_kind);
    head_fields(io, head);
    return io.take();
}

Result<ConversationHead> read_head(std::span<const std::byte> bytes) {
    RONDO_ASSIGN(FieldReader io, FieldReader::open(head_kind, bytes));
    ConversationHead head;
    head_fields(io, head);
    RONDO_TRY(io.check_end());
    const ConversationFigures& figures = head.figures;
    if (std::max(head.name.tenant.size(), head.name.id.size()) > ConversationHead::name_bytes_max)
        return damaged(head_kind, "has a name that is too long");
    if (head.used_at < 0.0 || head.used_at > used_at_max) return damaged(head_kind, "has an impossible time");
    if (figures.rounds < 0 || figures.rounds > limits::rounds_max || figures.tokens < 0 ||
        figures.tokens > figures.rounds * limits::context_tokens_max ||
        figures.bytes > static_cast<uint64_t>(FieldReader::number_max) || figures.title.size() > title_bytes_max)
        return damaged(head_kind, "has impossible figures");
    return head;
}

}  // namespace rondo
