#include "model/text/tokenizer.hpp"
#include "model/text/unicode.hpp"

namespace rondo {

std::string Tokenizer::decode(std::span<const int32_t> ids, bool special) const {
    std::string bytes;
    for (const int32_t id : ids) bytes += bytes_of(id, special);
    const bool strips = strips_first_space() && bytes.starts_with(' ');
    std::string text;
    unicode::repair(std::string_view(bytes).substr(strips ? 1 : 0), true, text);
    return text;
}

std::string Detokenizer::push(int32_t id) {
    std::string bytes = tokenizer_->bytes_of(id, special_);
    if (bytes.empty()) return {};
    if (first_ && tokenizer_->strips_first_space() && bytes[0] == ' ') bytes.erase(0, 1);
    first_ = false;
    pending_ += bytes;
    std::string text;
    pending_.erase(0, unicode::repair(pending_, false, text));
    return text;
}

std::string Detokenizer::finish() {
    std::string text;
    unicode::repair(pending_, true, text);
    pending_.clear();
    first_ = true;
    return text;
}

}  // namespace rondo
