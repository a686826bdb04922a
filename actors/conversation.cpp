#include "actors/conversation.hpp"

#include <algorithm>

namespace rondo {

int64_t Conversation::tokens() const {
    int64_t sum = 0;
    for (const Round& round : rounds_) sum += round.tokens;
    return sum;
}

std::vector<ChatMessage> Conversation::all_messages() const {
    std::vector<ChatMessage> all = preamble;
    for (const Round& round : rounds_) {
        all.insert(all.end(), round.asked.begin(), round.asked.end());
        all.push_back({"assistant", round.answer});
    }
    return all;
}

/// Text is not encoded the same in pieces as in one, and a model's answer is not always how the tokenizer would have
/// cut it. So the ids of what was said stay as they are, and only what the template adds after them is encoded; but a
/// template may also change what stands earlier (Qwen3's drops old thoughts), and then all of it is encoded anew.
Result<std::vector<int32_t>> Conversation::prompt(const std::vector<ChatMessage>& messages) const {
    std::vector<ChatMessage> all = all_messages();
    all.insert(all.end(), messages.begin(), messages.end());
    RONDO_ASSIGN(const std::string text, model_->render_chat(all));
    if (ids_.empty() || !text.starts_with(text_)) return model_->tokenizer->encode(text, true);
    RONDO_ASSIGN(const std::vector<int32_t> more,
                 model_->tokenizer->encode(std::string_view(text).substr(text_.size()), true));
    std::vector<int32_t> ids = ids_;
    ids.insert(ids.end(), more.begin(), more.end());
    return ids;
}

void Conversation::answered(std::vector<ChatMessage> messages, std::string answer, std::vector<int32_t> ids,
                            bool exact) {
    const int64_t before = tokens();
    std::vector<ChatMessage> all = all_messages();
    all.insert(all.end(), messages.begin(), messages.end());
    const Result<std::string> asked = model_->render_chat(all);
    rounds_.push_back(
        {std::move(messages), std::move(answer), std::max<int64_t>(static_cast<int64_t>(ids.size()) - before, 0)});
    if (exact && asked) {
        // Where the template has changed what stands earlier, nobody knows how much of the new ids each round was.
        const bool goes_on = ids.size() >= ids_.size() && std::equal(ids_.begin(), ids_.end(), ids.begin());
        if (!goes_on || !asked->starts_with(text_)) forget_ids_from(0);
        text_ = *asked + rounds_.back().answer;
        // What ended the answer was not said.
        if (model_->ends_answer(ids.back()) || model_->tokenizer->is_special(ids.back()))
            text_ += model_->tokenizer->bytes_of(ids.back(), true);
        ids_ = std::move(ids);
    }
    known_.push_back({ids_.size(), text_.size()});
}

void Conversation::forget_ids_from(size_t round) {
    const Known kept = round == 0 ? Known{} : known_[round - 1];
    ids_.resize(kept.ids);
    text_.resize(kept.bytes);
    for (size_t i = round; i < known_.size(); ++i) known_[i] = kept;
}

Status Conversation::check_round(int64_t round) const {
    const auto count = static_cast<int64_t>(rounds_.size());
    if (round >= 0 && round < count) return Status::ok();
    return make_error(
        ErrorCode::out_of_range,
        "round is " + std::to_string(round) +
            (count == 0 ? "; the conversation has none" : "; 0 to " + std::to_string(count - 1) + " would be right"));
}

Status Conversation::rewind(int64_t round) {
    RONDO_TRY(check_round(round));
    forget_ids_from(static_cast<size_t>(round));
    rounds_.resize(static_cast<size_t>(round));
    known_.resize(rounds_.size());
    return Status::ok();
}

Status Conversation::drop(std::vector<int64_t> rounds) {
    for (const int64_t round : rounds) RONDO_TRY(check_round(round));
    std::sort(rounds.begin(), rounds.end());
    rounds.erase(std::unique(rounds.begin(), rounds.end()), rounds.end());
    if (!rounds.empty()) forget_ids_from(static_cast<size_t>(rounds.front()));
    for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
        rounds_.erase(rounds_.begin() + *round);
        known_.erase(known_.begin() + *round);
    }
    return Status::ok();
}

}  // namespace rondo
