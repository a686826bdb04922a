#include "model/format/sorted_tokens.hpp"

#include <algorithm>
#include <utility>

namespace rondo {

SortedTokens::SortedTokens(int64_t vocabulary, const BytesOf& bytes_of) {
    std::vector<std::pair<std::string, int32_t>> tokens;
    size_t bytes = 0;
    for (int32_t id = 0; id < vocabulary; ++id) {
        std::string text = bytes_of(id);
        bytes += text.size();
        if (!text.empty()) tokens.emplace_back(std::move(text), id);
    }
    std::ranges::sort(tokens);
    ids_.reserve(tokens.size());
    ends_.reserve(tokens.size());
    shared_.reserve(tokens.size());
    bytes_.reserve(bytes);
    std::string_view before;
    for (const auto& [text, id] : tokens) {
        const auto same = std::ranges::mismatch(text, before).in1 - text.begin();
        ids_.push_back(id);
        bytes_ += text;
        ends_.push_back(bytes_.size());
        shared_.push_back(static_cast<uint32_t>(same));
        before = text;
    }
}

}  // namespace rondo
