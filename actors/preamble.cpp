#include "actors/preamble.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace rondo {

namespace {

constexpr const char* what_nobody_says = "\uE000";

/// Those at the beginning that are nobody's, and a word of whoever speaks first.
std::vector<ChatMessage> up_to_first_speaker(const Conversation& conversation, std::span<const ChatMessage> messages) {
    std::vector<ChatMessage> all;
    const auto add = [&all](std::span<const ChatMessage> more) {
        for (const ChatMessage& message : more) {
            const bool is_system = message.role == "system" || message.role == "developer";
            all.push_back(is_system ? message : ChatMessage{message.role, what_nobody_says});
            if (!is_system) return true;
        }
        return false;
    };
    if (add(conversation.preamble)) return all;
    add(conversation.rounds().empty() ? messages : std::span(conversation.rounds().front().asked));
    return all;
}

}  // namespace

int64_t preamble_tokens(const Model& model, const Conversation& conversation, std::span<const ChatMessage> messages,
                        const GivenToTemplate& given, std::span<const int32_t> ids, const std::stop_token& stop) {
    const Result<std::string> rendered = model.render_chat(up_to_first_speaker(conversation, messages), given, stop);
    if (!rendered) return 0;
    std::string_view rest = rendered.value();
    int64_t count = 0;
    for (const int32_t id : ids) {
        std::string bytes = model.tokenizer->bytes_of(id, true);
        if (count == 0 && model.tokenizer->strips_first_space() && bytes.starts_with(' ')) bytes.erase(0, 1);
        const bool is_before_text = count == 0 && id == model.spec.bos_id && !rest.starts_with(bytes);
        if (!is_before_text && !rest.starts_with(bytes)) break;
        if (!is_before_text) rest.remove_prefix(bytes.size());
        ++count;
    }
    return count;
}

}  // namespace rondo
