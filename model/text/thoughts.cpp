#include "model/text/thoughts.hpp"

#include <algorithm>

namespace rondo {

namespace {

constexpr std::string_view spaces = " \t\r\n";

/// How many bytes at the end of `text` begin `tag`, but are not all of it.
size_t begun_at_end(std::string_view text, std::string_view tag) {
    for (size_t size = std::min(text.size(), tag.size() - 1); size > 0; --size)
        if (text.ends_with(tag.substr(0, size))) return size;
    return 0;
}

void drop_line_breaks(std::string& text) {
    text.erase(0, std::min(text.find_first_not_of("\r\n"), text.size()));
}

}  // namespace

Thoughts::Parts Thoughts::push(std::string_view text) {
    Parts parts;
    held_ += text;
    while (advance(parts, false)) {
    }
    return parts;
}

Thoughts::Parts Thoughts::finish() {
    Parts parts;
    while (advance(parts, true)) {
    }
    return parts;
}

/// Takes what is certain from what is held, or everything; true when the state is another one now.
bool Thoughts::advance(Parts& parts, bool all) {
    switch (state_) {
        case State::unknown: {
            const size_t first = std::min(held_.find_first_not_of(spaces, spaces_), held_.size());
            const std::string_view said = std::string_view(held_).substr(first);
            spaces_ = first;
            if (said.starts_with(begin_tag)) {
                held_.erase(0, first + begin_tag.size());
                spaces_ = 0;
                state_ = State::begins;
                return true;
            }
            if (!all && begin_tag.starts_with(said)) return false;
            state_ = State::answer;
            return true;
        }
        case State::begins:
            drop_line_breaks(held_);
            if (held_.empty()) return false;
            state_ = State::inside;
            return true;
        case State::inside: {
            const size_t end = held_.find(end_tag, spaces_);
            const size_t known =
                end != std::string::npos ? end : held_.size() - (all ? 0 : begun_at_end(held_, end_tag));
            // Line breaks before the tag, or before what may be one, may be the thought's last.
            const size_t last = std::string_view(held_).substr(spaces_, known - spaces_).find_last_not_of("\r\n");
            const size_t kept = last == std::string_view::npos ? 0 : spaces_ + last + 1;
            parts.thought.append(held_, 0, kept);
            held_.erase(0, end != std::string::npos ? end + end_tag.size() : all ? held_.size() : kept);
            spaces_ = end == std::string::npos && !all ? known - kept : 0;
            if (end == std::string::npos) return false;
            state_ = State::after;
            return true;
        }
        case State::after:
            drop_line_breaks(held_);
            if (held_.empty()) return false;
            state_ = State::answer;
            return true;
        case State::answer:
            parts.answer += held_;
            held_.clear();
            return false;
    }
    return false;
}

bool begins_thought(std::string_view prompt_end) {
    const size_t last = prompt_end.find_last_not_of(spaces);
    return last != std::string_view::npos && prompt_end.substr(0, last + 1).ends_with(Thoughts::begin_tag);
}

}  // namespace rondo
