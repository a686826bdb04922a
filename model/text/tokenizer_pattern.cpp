#include "model/text/tokenizer_pattern.hpp"

#include "model/text/find_piece.hpp"
#include "model/text/unicode.hpp"

namespace rondo {

TokenizerPattern::Finder::Finder(const TokenizerPattern& pattern, size_t text_bytes, const std::stop_token& stop)
    : pattern_(&pattern) {
    if (const auto* regex = std::get_if<TokenizerRegex>(&pattern.what_)) regex_.emplace(*regex, text_bytes, stop);
}

Status TokenizerPattern::Finder::find_all(std::string_view text, std::vector<ByteRange>& matches) {
    if (regex_) return regex_->find_all(text, matches);
    matches.clear();
    if (const auto* literal = std::get_if<std::string>(&pattern_->what_)) {
        if (literal->empty()) return Status::ok();
        for (size_t at = 0; (at = find_piece(text, *literal, at)) != std::string_view::npos; at += literal->size())
            matches.push_back({at, at + literal->size()});
        return Status::ok();
    }
    const auto belongs = std::get<CharacterClass>(pattern_->what_);
    for (size_t at = 0; at < text.size();) {
        const auto c = unicode::decode(text, at);
        if (belongs(c.value)) matches.push_back({at, at + c.bytes});
        at += c.bytes;
    }
    return Status::ok();
}

}  // namespace rondo
