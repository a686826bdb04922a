#include "model/tools/called_tools.hpp"

#include <algorithm>
#include <utility>

namespace rondo {

namespace {

constexpr std::string_view white_space = " \t\r\n";
constexpr size_t white_space_max = 64;  // before a call; what is more is text

/// The bytes at the end of `text` that may go on to become `cue`.
size_t begun_at_end(std::string_view text, std::string_view cue) {
    for (size_t bytes = std::min(text.size(), cue.size() - 1); bytes > 0; --bytes)
        if (cue.starts_with(text.substr(text.size() - bytes))) return bytes;
    return 0;
}

}  // namespace

CalledTools::Parts CalledTools::push(std::string_view answer) {
    Parts parts;
    held_ += answer;
    while (advance(parts)) {
    }
    return parts;
}

CalledTools::Parts CalledTools::finish() {
    Parts parts;
    if (state_ == State::start || state_ == State::text) give_text(held_.size(), parts);
    if (!style_->before_id.empty() && !arguments_.empty()) begin_call(parts, new_id_());  // it was cut before its id
    held_.clear();
    return parts;
}

/// Whether it came any further.
bool CalledTools::advance(Parts& parts) {
    switch (state_) {
        case State::start:
        case State::text:
            return advance_text(parts);
        case State::begin:
            return advance_literal(calls_ == 0 ? style_->begin : style_->next, State::name);
        case State::name:
            return advance_name(parts);
        case State::arguments:
            return advance_arguments(parts);
        case State::before_id:
            return advance_literal(style_->before_id, State::id);
        case State::id:
            return advance_id(parts);
        case State::behind:
            if (!style_->next.empty() && held_.size() >= style_->next.size()) state_ = State::begin;
            return state_ == State::begin;
        case State::over:
            held_.clear();
            return false;
    }
    return false;
}

bool CalledTools::advance_text(Parts& parts) {
    const std::string_view cue = style_->cue();
    const size_t at = style_->only_first() ? 0 : held_.find(cue);
    const bool may_be_call = !style_->only_first() || state_ == State::start;
    if (may_be_call && at != std::string::npos && held_.compare(at, cue.size(), cue) == 0) {
        give_text(text_before(at), parts);
        // The style's beginning, whatever white space the model has put before it.
        held_.replace(0, held_.find(cue), style_->begin, 0, style_->begin.find(cue));
        state_ = State::begin;
        return true;
    }
    size_t kept = 0;
    if (!style_->only_first()) {
        kept = held_.size() - text_before(held_.size() - begun_at_end(held_, cue));
    } else if (state_ == State::start && cue.starts_with(held_)) {
        kept = held_.size();
    }
    if (kept < held_.size()) give_text(held_.size() - kept, parts);
    return false;
}

/// The bytes of `held_` that are text, where a call may begin at `at`.
size_t CalledTools::text_before(size_t at) const {
    const size_t last = std::string_view(held_).substr(0, at).find_last_not_of(white_space);
    const size_t bytes = last == std::string_view::npos ? 0 : last + 1;
    return std::max(bytes, at - std::min(at, white_space_max));
}

/// Passes over a text that must stand here. Where another one does, nothing more is told.
bool CalledTools::advance_literal(std::string_view literal, State then) {
    if (held_.size() < literal.size()) {
        if (!literal.starts_with(held_)) state_ = State::over;
        return false;
    }
    state_ = std::string_view(held_).starts_with(literal) ? then : State::over;
    held_.erase(0, literal.size());
    return true;
}

bool CalledTools::advance_name(Parts& parts) {
    const size_t end = held_.find(style_->between);
    if (end == std::string::npos) return false;
    are_whole_ = false;
    name_ = held_.substr(0, end);
    held_.erase(0, end + style_->between.size());
    arguments_.clear();
    depth_ = 0;
    if (style_->before_id.empty()) begin_call(parts, new_id_());
    state_ = State::arguments;
    return true;
}

bool CalledTools::advance_arguments(Parts& parts) {
    size_t end = 0;
    bool are_whole = false;
    for (; end < held_.size() && !are_whole; ++end) {
        const char c = held_[end];
        if (in_string_) {
            in_string_ = escaped_ || c != '"';
            escaped_ = !escaped_ && c == '\\';
        } else {
            in_string_ = c == '"';
            depth_ += c == '{' || c == '[' ? 1 : 0;
            depth_ -= c == '}' || c == ']' ? 1 : 0;
            are_whole = depth_ <= 0;
        }
    }
    if (end == 0) return false;
    if (style_->before_id.empty()) {
        piece(parts).arguments += held_.substr(0, end);
    } else {
        arguments_ += held_.substr(0, end);
    }
    held_.erase(0, end);
    if (are_whole) state_ = style_->before_id.empty() ? State::behind : State::before_id;
    are_whole_ = state_ == State::behind;
    return are_whole;
}

bool CalledTools::advance_id(Parts& parts) {
    constexpr auto size = static_cast<size_t>(CallStyle::id_characters);
    if (held_.size() < size) return false;
    begin_call(parts, held_.substr(0, size));
    held_.erase(0, size);
    state_ = State::behind;
    are_whole_ = true;
    return true;
}

void CalledTools::give_text(size_t bytes, Parts& parts) {
    parts.text.append(held_, 0, bytes);
    held_.erase(0, bytes);
    if (bytes > 0 && state_ == State::start) state_ = State::text;
}

void CalledTools::begin_call(Parts& parts, std::string id) {
    parts.calls.push_back({calls_++, std::move(id), std::exchange(name_, {}), std::exchange(arguments_, {})});
}

ToolCallPiece& CalledTools::piece(Parts& parts) const {
    if (parts.calls.empty() || parts.calls.back().index != calls_ - 1) parts.calls.push_back({calls_ - 1, {}, {}, {}});
    return parts.calls.back();
}

}  // namespace rondo
