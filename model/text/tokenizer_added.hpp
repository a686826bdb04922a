#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

struct AddedToken {
    std::string text;  ///< what is looked for
    int32_t id = -1;
    bool special = false;
    bool takes_spaces_left = false, takes_spaces_right = false;
    bool single_word = false;  ///< not inside a longer word
};

/// Finds added tokens in a text: the leftmost first, of those the longest. Immutable after `prepare`.
class AddedTokens {
public:
    struct Segment {
        size_t begin, end;
        int32_t id;  ///< -1: text between added tokens
    };

    /// A token without text is never found.
    void add(AddedToken token);
    void prepare();
    /// Replaces `segments` with the whole text in order; special tokens are text unless `special`.
    void split(std::string_view text, bool special, std::vector<Segment>& segments) const;
    bool has(int32_t id) const;
    /// How many bytes of white space at the text's beginning belong to the token `id` before it.
    size_t spaces_taken_by(int32_t id, std::string_view text) const;

private:
    const AddedToken* longest_at(std::string_view text, size_t at, bool special) const;

    std::vector<AddedToken> tokens_;  // sorted by text once prepared
    std::vector<uint32_t> first_;     // [257] tokens_ that begin with byte b are first_[b] .. first_[b + 1]
};

}  // namespace rondo
