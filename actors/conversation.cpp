#include "actors/conversation.hpp"

#include <algorithm>

#include "actors/answer_ends.hpp"
#include "actors/gateway/bodies/title.hpp"
#include "model/tools/written_calls.hpp"

namespace rondo {

namespace {

constexpr size_t answer_border = 1;         // of those the one behind the answer
constexpr size_t character_tokens_max = 4;  // of the bytes of one character each

}  // namespace

int64_t Conversation::tokens() const {
    int64_t sum = 0;
    for (const Round& round : rounds_) sum += round.tokens;
    return sum;
}

std::vector<ChatMessage> Conversation::all_messages() const {
    std::vector<ChatMessage> all = preamble;
    for (const Round& round : rounds_) {
        all.insert(all.end(), round.asked.begin(), round.asked.end());
        all.push_back(answer_message(round.answer, model_->style_of_calls()));
    }
    return all;
}

/// Text is not encoded the same in pieces as in one, and a model's answer is not always how the tokenizer would have
/// cut it. So the ids of what was said stay as they are, and only what the template adds after them is encoded. A
/// template may also change what stands earlier (Qwen3's drops old thoughts); then the ids before that place stay.
Result<Conversation::Prompt> Conversation::prompt(const std::vector<ChatMessage>& messages,
                                                  const GivenToTemplate& given, const std::stop_token& stop) const {
    std::vector<ChatMessage> all = all_messages();
    all.insert(all.end(), messages.begin(), messages.end());
    RONDO_ASSIGN(std::string text, model_->render_chat(all, given, stop));
    const Start start = known_start_of(text);
    Prompt prompt = prompt_up_to(start.border);
    const int32_t before = prompt.ids.empty() ? -1 : prompt.ids.back();
    RONDO_ASSIGN(const std::vector<int32_t> more,
                 model_->tokenizer->encode_behind(before, std::string_view(text).substr(start.bytes), true, stop));
    prompt.ids.insert(prompt.ids.end(), more.begin(), more.end());
    const std::vector<size_t> ends = answer_ends(text, all, model_->style_of_calls());
    prompt.text = std::move(text.erase(0, start.bytes));
    prompt.plan_rounds(ends, start.bytes, more, *model_->tokenizer);
    return prompt;
}

/// What was answered within the new text ended rounds, too: who sends what was said again has the rounds that he would
/// have had.
void Conversation::Prompt::plan_rounds(std::span<const size_t> ends, size_t begin, std::span<const int32_t> more,
                                       const Tokenizer& tokenizer) {
    std::vector<size_t> places;
    for (const size_t end : ends)
        if (end > begin) places.push_back(end - begin);
    if (places.empty()) return;
    for (const int64_t count : tokens_up_to(places, more, text, tokenizer, known_ids > 0)) {
        const int64_t end = static_cast<int64_t>(known_ids) + count;
        if (end > (round_ends.empty() ? 0 : round_ends.back())) round_ends.push_back(end);
    }
}

/// The border of which most of `text` is known.
Conversation::Start Conversation::known_start_of(std::string_view text) const {
    constexpr size_t elsewhere = std::string_view::npos;
    std::vector<size_t> ends;  // of each border in `text`
    ends.reserve(borders_.size());
    Start best;
    for (const Border& border : borders_) {
        const size_t begin = border.after < 0 ? 0 : ends[static_cast<size_t>(border.after)];
        const bool fits = begin != elsewhere && text.substr(begin).starts_with(border.text);
        ends.push_back(fits ? begin + border.text.size() : elsewhere);
        if (fits && !border.ids.empty() && ends.back() >= best.bytes) best = {std::ssize(ends) - 1, ends.back()};
    }
    return best;
}

/// What is known of a prompt that begins with a border's text. An answer's last token has no KV, unless another one
/// ended it.
Conversation::Prompt Conversation::prompt_up_to(int64_t border) const {
    std::vector<int64_t> way;
    for (int64_t at = border; at >= 0; at = borders_[static_cast<size_t>(at)].after) way.push_back(at);
    Prompt prompt;
    prompt.border = border;
    for (auto at = way.rbegin(); at != way.rend(); ++at) {
        const auto index = static_cast<size_t>(*at);
        const std::vector<int32_t>& ids = borders_[index].ids;
        prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
        if (index % borders_a_round != answer_border || ids.empty()) continue;
        prompt.round_ends.push_back(std::ssize(prompt.ids) - (borders_[index + 1].ids.empty() ? 1 : 0));
    }
    prompt.known_ids = prompt.ids.size();
    return prompt;
}

Conversation::Prompt Conversation::history() const {
    int64_t last = std::ssize(borders_) - 1;
    while (last >= 0 && borders_[static_cast<size_t>(last)].ids.empty()) --last;
    return prompt_up_to(last);
}

int64_t Conversation::known_tokens() const {
    return std::ssize(history().ids);
}

void Conversation::answered(std::vector<ChatMessage> messages, std::string answer, const Prompt& prompt,
                            std::span<const int32_t> answer_ids, std::optional<TurnFigures> figures) {
    if (rounds_.empty()) take_history(messages);
    const auto asked = static_cast<int64_t>(borders_.size());
    borders_.push_back(
        {prompt.border, prompt.text, {prompt.ids.begin() + static_cast<int64_t>(prompt.known_ids), prompt.ids.end()}});
    borders_.push_back(answered_border(answer, answer_ids));
    borders_.back().after = asked;
    borders_.push_back(ended_border(answer_ids.subspan(borders_.back().ids.size())));
    borders_.back().after = asked + 1;
    const auto size = static_cast<int64_t>(prompt.ids.size() + answer_ids.size());
    const int64_t tokens_before = tokens();
    rounds_.push_back({std::move(messages), std::move(answer), 0, std::move(figures)});
    if (tokens_before == 0) return share_tokens(size);
    rounds_.back().tokens = std::max<int64_t>(size - tokens_before, 0);
}

/// Leaves in `messages` what the round asks. What comes before becomes the preamble and rounds whose ids nobody knows.
void Conversation::take_history(std::vector<ChatMessage>& messages) {
    // An answer that says more than a text (calls of tools, thoughts) stays part of what was asked: a round keeps a
    // text.
    const auto is_answer = [](const ChatMessage& message) {
        return message.role == "assistant" && message.more_json.empty();
    };
    if (std::ranges::none_of(messages, is_answer)) return;
    auto next = messages.begin();
    for (; preamble.empty() && next != messages.end() && next->role == "system"; ++next) {
    }
    if (preamble.empty()) preamble.assign(messages.begin(), next);
    for (auto at = next; at != messages.end(); ++at) {
        if (!is_answer(*at) || at == next || at + 1 == messages.end()) continue;
        rounds_.push_back({{std::make_move_iterator(next), std::make_move_iterator(at)}, std::move(at->content)});
        next = at + 1;
    }
    messages.erase(messages.begin(), next);
    borders_.resize(rounds_.size() * borders_a_round);
}

/// Nobody counted the tokens of rounds that a client brought along: each gets its share by the length of its text.
void Conversation::share_tokens(int64_t tokens) {
    const auto length_of = [](const Round& round) {
        double sum = 1.0 + static_cast<double>(round.answer.size());
        for (const ChatMessage& message : round.asked) sum += static_cast<double>(message.content.size());
        return sum;
    };
    double length = 0.0, before = 0.0;
    for (const Round& round : rounds_) length += length_of(round);
    int64_t given = 0;
    for (Round& round : rounds_) {
        before += length_of(round);
        const auto up_to = static_cast<int64_t>(static_cast<double>(tokens) * (before / length));
        round.tokens = up_to - given;
        given = up_to;
    }
    rounds_.back().tokens += tokens - given;
}

std::string Conversation::title() const {
    if (!title_.empty() || rounds_.empty()) return title_;
    const std::vector<ChatMessage>& asked = rounds_.front().asked;
    const auto first = std::ranges::find(asked, "user", &ChatMessage::role);
    return first == asked.end() ? "" : title_of(first->content);
}

Status Conversation::rename(std::string title) {
    RONDO_TRY(check_title(title));
    title_ = std::move(title);
    return Status::ok();
}

/// As many of an answer's ids as spell a beginning of its text. All of them may spell more: a stop string was cut off,
/// or a character that was not complete when its user left.
Conversation::Border Conversation::answered_border(std::string_view answer, std::span<const int32_t> ids) const {
    if (!ids.empty() && model_->tokenizer->is_special(ids.back())) ids = ids.first(ids.size() - 1);
    if (model_->tokenizer->decode(ids) == answer) return {-1, std::string(answer), {ids.begin(), ids.end()}};
    Detokenizer detokenizer(*model_->tokenizer);
    size_t spelled = 0, count = 0;  // bytes, and the ids that spell them
    for (bool same = true; count < ids.size() && same; ++count) {
        const std::string piece = detokenizer.push(ids[count]);
        same = answer.substr(std::min(spelled, answer.size())).starts_with(piece);
        spelled += piece.size();
    }
    // The last of those may have spelled what was not said, and the ones before it the bytes of one character.
    for (size_t back = 0; back <= character_tokens_max && count > 0; ++back, --count) {
        const std::span<const int32_t> said = ids.first(count);
        std::string text = model_->tokenizer->decode(said);
        if (answer.starts_with(text)) return {-1, std::move(text), {said.begin(), said.end()}};
    }
    return {};
}

/// The token that ended the answer was not said, but stands in most templates behind it.
Conversation::Border Conversation::ended_border(std::span<const int32_t> ids) const {
    if (ids.size() != 1) return {};
    return {-1, model_->tokenizer->bytes_of(ids[0], true), {ids[0]}};
}

size_t Conversation::bytes() const {
    size_t sum = sizeof(*this) + title_.size();
    const auto add = [&sum](const ChatMessage& message) {
        sum += sizeof(message) + message.role.size() + message.content.size() + message.more_json.size();
    };
    std::ranges::for_each(preamble, add);
    for (const Round& round : rounds_) {
        sum += sizeof(round) + round.answer.size();
        std::ranges::for_each(round.asked, add);
    }
    for (const Border& border : borders_)
        sum += sizeof(border) + border.text.size() + border.ids.size() * sizeof(border.ids[0]);
    return sum;
}

Status Conversation::check_round(int64_t round) const {
    const auto count = static_cast<int64_t>(rounds_.size());
    if (round >= 0 && round < count) return Status::ok();
    return make_error(ErrorCode::out_of_range,
                      "round is " + std::to_string(round) +
                          (count == 0 ? "; the conversation has none" : ", must be 0 to " + std::to_string(count - 1)));
}

Status Conversation::rewind(int64_t round) {
    RONDO_TRY(check_round(round));
    rounds_.resize(static_cast<size_t>(round));
    borders_.resize(rounds_.size() * borders_a_round);
    return Status::ok();
}

Status Conversation::drop(std::vector<int64_t> rounds) {
    for (const int64_t round : rounds) RONDO_TRY(check_round(round));
    std::sort(rounds.begin(), rounds.end());
    rounds.erase(std::unique(rounds.begin(), rounds.end()), rounds.end());
    if (rounds.empty()) return Status::ok();
    // The rounds behind the first of them were computed with what goes now.
    borders_.resize(static_cast<size_t>(rounds.front()) * borders_a_round);
    auto next = rounds.begin();
    int64_t round = 0;
    std::erase_if(rounds_, [&](const Round&) {  // all at once: there may be thousands of each
        const bool goes = next != rounds.end() && *next == round;
        next += goes ? 1 : 0;
        ++round;
        return goes;
    });
    borders_.resize(rounds_.size() * borders_a_round);
    return Status::ok();
}

}  // namespace rondo
