#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

/// A set of byte strings, as nodes that each read a byte, part ways or call a rule. It is built from its end: each
/// maker is given the node that follows and gives back the one before it.
class ByteGrammar {
public:
    using Node = int32_t;
    using Rule = int32_t;
    using MakePart = std::function<Node(Node next)>;

    static constexpr Node end = 0;    ///< of a rule, and of the whole
    static constexpr Node never = 1;  ///< nothing goes on from here

    struct Link {
        enum class Kind : uint8_t { end, never, bytes, either, call };
        Kind kind;
        uint8_t low = 0, high = 0;  ///< bytes: which ones
        Node next = never;
        int32_t other = never;  ///< either: the second node; call: the rule
    };

    ByteGrammar();

    Node bytes(uint8_t low, uint8_t high, Node next);
    /// One of these bytes.
    Node any_of(std::string_view bytes, Node next);
    Node text(std::string_view text, Node next);
    /// One of these texts. Beginnings that they share are read once.
    Node texts(std::vector<std::string> texts, Node next);
    Node either(Node one, Node other);
    Node maybe(const MakePart& part, Node next) { return either(part(next), next); }
    /// From `least` to `most` times; without a most (-1) any number.
    Node times(int64_t least, int64_t most, const MakePart& part, Node next);

    Rule rule(Node begin = never);
    void define(Rule rule, Node begin) { rules_[static_cast<size_t>(rule)] = begin; }
    Node call(Rule rule, Node next);

    /// A rule of another grammar, with all that it needs.
    Rule copy(const ByteGrammar& other, Rule rule);

    /// More nodes were asked for than there may be: what was built is of no use.
    bool is_full() const { return full_; }
    /// Comes when all is built. Nodes behind which no text ends are none any more, so that a text that has begun can
    /// always be ended; bytes that no node tells apart get one class.
    void finish();

    /// No text is of this rule. After `finish`.
    bool is_empty(Rule rule) const { return link(begin_of(rule)).kind == Link::Kind::never; }

    const Link& link(Node node) const { return links_[static_cast<size_t>(node)]; }
    Node begin_of(Rule rule) const { return rules_[static_cast<size_t>(rule)]; }
    uint8_t class_of(uint8_t byte) const { return class_of_[byte]; }
    size_t classes() const { return classes_; }
    size_t nodes() const { return links_.size(); }

private:
    Node add(Link link);
    Node branches(std::span<const std::string> sorted, size_t from, Node next);
    void drop_endless();
    void class_bytes();

    std::vector<Link> links_;
    std::vector<Node> rules_;
    std::array<uint8_t, 256> class_of_{};
    size_t classes_ = 1;
    bool full_ = false;
};

}  // namespace rondo
