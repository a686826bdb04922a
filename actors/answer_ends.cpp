#include "actors/answer_ends.hpp"

#include <string.h>

#include <algorithm>
#include <string>

#include "model/tools/written_calls.hpp"

namespace rondo {

namespace {

/// A text may be looked through so often without a find. A client who sends thousands of messages that his template
/// changes must not keep everybody waiting.
constexpr size_t passes_in_vain = 16;
constexpr size_t nowhere = std::string_view::npos;

/// In a time that grows with their lengths, however they repeat themselves.
size_t find(std::string_view text, std::string_view part, size_t from) {
    if (part.empty()) return from;
    const void* const found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
    return found == nullptr ? nowhere : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

/// As many templates leave a message's text.
std::string_view trimmed(std::string_view text) {
    constexpr std::string_view space = " \t\n\r\f\v";
    const size_t begin = text.find_first_not_of(space);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

}  // namespace

/// One look through the text for each message: as templates leave it, and at that place as it was.
std::vector<size_t> answer_ends(std::string_view text, std::span<const ChatMessage> messages, const CallStyle* style) {
    std::vector<size_t> ends;
    size_t at = 0, in_vain = 0;
    const auto pass = [&](std::string_view whole) {
        const std::string_view part = trimmed(whole);
        const size_t found = find(text, part, at), lead = part.empty() ? 0 : whole.find(part);
        if (found == nowhere) {
            in_vain += text.size() - at;
            return false;
        }
        const bool is_whole = found >= at + lead && text.substr(found - lead).starts_with(whole);
        at = is_whole ? found - lead + whole.size() : found + part.size();
        return !part.empty();
    };
    for (const ChatMessage& message : messages) {
        const std::string calls = written_calls(message, style);
        const bool has_said = pass(message.content), has_called = !calls.empty() && pass(calls);
        if (in_vain > passes_in_vain * text.size()) break;
        if (calls.empty() ? !has_said : !has_called) continue;
        const bool is_new = at > (ends.empty() ? 0 : ends.back()) && at < text.size();
        if (message.role == "assistant" && is_new) ends.push_back(at);
    }
    return ends;
}

std::vector<int64_t> tokens_up_to(std::span<const size_t> places, std::span<const int32_t> ids, std::string_view text,
                                  const Tokenizer& tokenizer, bool is_behind_ids) {
    std::vector<int64_t> counts;
    const size_t stripped = tokenizer.strips_first_space() && !is_behind_ids ? 1 : 0;
    size_t spelled = 0;
    auto place = places.begin();
    for (size_t i = 0; i < ids.size(); ++i) {
        const size_t more = tokenizer.bytes_of(ids[i], true).size();
        for (; place != places.end() && *place + stripped < spelled + more; ++place)
            counts.push_back(static_cast<int64_t>(i));
        spelled += more;
    }
    if (spelled != text.size() + stripped || place != places.end()) return {};
    return counts;
}

}  // namespace rondo
