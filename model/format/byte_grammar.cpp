#include "model/format/byte_grammar.hpp"

#include <algorithm>

#include "config/limits.hpp"

namespace rondo {

ByteGrammar::ByteGrammar() : links_{{Link::Kind::end}, {Link::Kind::never}} {}

ByteGrammar::Node ByteGrammar::add(Link link) {
    if (links_.size() >= limits::format_nodes_max) {
        full_ = true;
        return never;
    }
    links_.push_back(link);
    return static_cast<Node>(links_.size()) - 1;
}

ByteGrammar::Node ByteGrammar::bytes(uint8_t low, uint8_t high, Node next) {
    return next == never ? never : add({Link::Kind::bytes, low, high, next});
}

ByteGrammar::Node ByteGrammar::any_of(std::string_view bytes, Node next) {
    Node all = never;
    for (const char each : bytes) all = either(text({&each, 1}, next), all);
    return all;
}

ByteGrammar::Node ByteGrammar::text(std::string_view text, Node next) {
    for (size_t i = text.size(); i > 0; --i) {
        const auto byte = static_cast<uint8_t>(text[i - 1]);
        next = bytes(byte, byte, next);
    }
    return next;
}

ByteGrammar::Node ByteGrammar::texts(std::vector<std::string> texts, Node next) {
    std::ranges::sort(texts);
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    return texts.empty() ? never : branches(texts, 0, next);
}

/// Of sorted texts that are equal up to `from`.
ByteGrammar::Node ByteGrammar::branches(std::span<const std::string> sorted, size_t from, Node next) {
    const std::string& first = sorted.front();
    const std::string& last = sorted.back();
    const auto same = static_cast<size_t>(
        std::ranges::mismatch(first.begin(), first.end(), last.begin(), last.end()).in1 - first.begin());
    Node all = never;
    if (sorted.size() == 1) {
        all = next;
    } else {
        if (first.size() == same) {
            all = next;
            sorted = sorted.subspan(1);
        }
        while (!sorted.empty()) {
            const auto group = std::ranges::find_if(
                sorted, [&](const std::string& text) { return text[same] != sorted.front()[same]; });
            const auto count = static_cast<size_t>(group - sorted.begin());
            all = either(branches(sorted.first(count), same, next), all);
            sorted = sorted.subspan(count);
        }
    }
    return text(std::string_view(first).substr(from, same - from), all);
}

ByteGrammar::Node ByteGrammar::either(Node one, Node other) {
    if (one == never || one == other) return other;
    if (other == never) return one;
    return add({Link::Kind::either, 0, 0, one, other});
}

ByteGrammar::Node ByteGrammar::times(int64_t least, int64_t most, const MakePart& part, Node next) {
    Node node = next;
    if (most < 0) {
        const Node again = add({Link::Kind::either, 0, 0, never, next});
        if (full_) return never;
        const Node one = part(again);
        links_[static_cast<size_t>(again)].next = one;
        node = again;
    } else {
        for (int64_t i = least; i < most && !full_; ++i) node = either(part(node), next);
    }
    for (int64_t i = 0; i < least && !full_; ++i) node = part(node);
    return node;
}

ByteGrammar::Rule ByteGrammar::rule(Node begin) {
    rules_.push_back(begin);
    return static_cast<Rule>(rules_.size()) - 1;
}

ByteGrammar::Node ByteGrammar::call(Rule rule, Node next) {
    return next == never ? never : add({Link::Kind::call, 0, 0, next, rule});
}

ByteGrammar::Rule ByteGrammar::copy(const ByteGrammar& other, Rule rule) {
    const auto nodes_before = static_cast<Node>(links_.size()), rules_before = static_cast<Rule>(rules_.size());
    constexpr Node own = never + 1;  // the first that is not the same in all grammars
    const auto here = [&](Node node) { return node < own ? node : node - own + nodes_before; };
    for (Node node = own; node < std::ssize(other.links_); ++node) {
        Link link = other.link(node);
        link.next = here(link.next);
        link.other = link.kind == Link::Kind::call ? link.other + rules_before : here(link.other);
        add(link);
    }
    for (const Node begin : other.rules_) rules_.push_back(here(begin));
    return rule + rules_before;
}

void ByteGrammar::finish() {
    drop_endless();
    class_bytes();
}

void ByteGrammar::drop_endless() {
    // What to look at again when a node turns out to have an end: the nodes before it, and calls of rules it begins.
    std::vector<std::vector<Node>> before(links_.size());
    std::vector<std::vector<Node>> callers(rules_.size());
    for (Node node = 0; node < std::ssize(links_); ++node) {
        const Link& each = link(node);
        if (each.kind == Link::Kind::end || each.kind == Link::Kind::never) continue;
        before[static_cast<size_t>(each.next)].push_back(node);
        if (each.kind == Link::Kind::either) before[static_cast<size_t>(each.other)].push_back(node);
        if (each.kind == Link::Kind::call) callers[static_cast<size_t>(each.other)].push_back(node);
    }
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
        std::vector<Node>& waiting = before[static_cast<size_t>(rules_[rule])];
        waiting.insert(waiting.end(), callers[rule].begin(), callers[rule].end());
    }
    std::vector<bool> ends(links_.size(), false);
    const auto has_end = [&](const Link& each) {
        const bool goes_on = ends[static_cast<size_t>(each.next)];
        if (each.kind == Link::Kind::either) return goes_on || ends[static_cast<size_t>(each.other)];
        if (each.kind == Link::Kind::call) return goes_on && ends[static_cast<size_t>(begin_of(each.other))];
        return goes_on;
    };
    ends[end] = true;
    for (std::vector<Node> found{end}; !found.empty();) {
        const std::vector<Node> waiting = std::move(before[static_cast<size_t>(found.back())]);
        found.pop_back();
        for (const Node node : waiting) {
            if (ends[static_cast<size_t>(node)] || !has_end(link(node))) continue;
            ends[static_cast<size_t>(node)] = true;
            found.push_back(node);
        }
    }
    for (size_t node = 0; node < links_.size(); ++node)
        if (!ends[node]) links_[node] = {Link::Kind::never};
}

void ByteGrammar::class_bytes() {
    std::array<bool, 257> begins{};
    begins[0] = true;
    for (const Link& each : links_) {
        if (each.kind != Link::Kind::bytes) continue;
        begins[each.low] = begins[size_t{each.high} + 1] = true;
    }
    size_t current = 0;
    for (size_t byte = 0; byte < class_of_.size(); ++byte) {
        current += byte > 0 && begins[byte] ? 1 : 0;
        class_of_[byte] = static_cast<uint8_t>(current);
    }
    classes_ = current + 1;
}

}  // namespace rondo
