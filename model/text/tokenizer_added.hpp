#pragma once

#include <array>
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace rondo {

struct AddedToken {
    std::string text;  ///< what is looked for
    int32_t id = -1;
    bool special = false;
    bool takes_spaces_left = false, takes_spaces_right = false;
    bool single_word = false;  ///< not inside a longer word
};

/// Finds added tokens in a text: the leftmost first, of those the longest. In linear time, whatever the tokens and the
/// text are. Immutable after `prepare`.
class AddedTokens {
public:
    struct Segment {
        size_t begin, end;
        int32_t id;  ///< -1: text between added tokens
    };

    /// A token without text is never found. The tokens' texts are bounded in all, because finding takes memory.
    Status add(AddedToken token);
    void prepare();
    /// Replaces `segments` with the whole text (fewer than 2^32 bytes) in order; special tokens are text unless
    /// `special`. When `stop` is requested, it ends early, with segments that are of no use.
    void split(std::string_view text, bool special, const std::stop_token& stop, std::vector<Segment>& segments) const;
    bool has(int32_t id) const;
    /// How many bytes of white space at the text's beginning belong to the token `id` before it.
    size_t spaces_taken_by(int32_t id, std::string_view text) const;

private:
    /// An end that several tokens share, in a tree of the tokens' texts read backwards (Aho and Corasick). The
    /// children of node i lie side by side, ordered by byte, up to the first child of node i + 1.
    struct Node {
        uint32_t first_child = 0;
        uint32_t shorter = 0;                      // the longest other node whose text this node's text begins with
        int32_t longest = -1, longest_plain = -1;  // of tokens_ that this node's text begins with; plain: not special
        char byte = 0;                             // before the parent's text
    };
    struct Found {
        uint32_t begin, token;
    };

    void grow_tree();
    uint32_t step(uint32_t node, char byte) const;
    /// The longest token at each place where one begins, from the text's end to its beginning.
    std::vector<Found> find_all(std::string_view text, bool special, const std::stop_token& stop) const;

    std::vector<AddedToken> tokens_;  // ordered by their texts read backwards once prepared
    size_t bytes_ = 0;                // of their texts
    std::vector<Node> nodes_;         // by length; [0] is the empty text
    std::array<uint32_t, 256> last_;  // the node of each last byte, or 0
};

}  // namespace rondo
