#include "model/format/free_text.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace rondo {

namespace {

using Node = ByteGrammar::Node;

constexpr int bytes_there_are = 256;

/// A node that reads one byte, and goes where that leads.
Node by_byte(ByteGrammar& grammar, const std::function<size_t(uint8_t)>& place_of,
             const std::function<Node(size_t)>& node_at) {
    Node all = ByteGrammar::never;
    for (int low = 0; low < bytes_there_are;) {
        const size_t place = place_of(static_cast<uint8_t>(low));
        int high = low;
        while (high + 1 < bytes_there_are && place_of(static_cast<uint8_t>(high + 1)) == place) ++high;
        const Node there = node_at(place);
        all = grammar.either(grammar.bytes(static_cast<uint8_t>(low), static_cast<uint8_t>(high), there), all);
        low = high + 1;
    }
    return all;
}

/// For a text that ended with so many bytes of the cue: with how many it ends behind each byte (Knuth, Morris, Pratt).
std::vector<std::array<size_t, bytes_there_are>> steps_of(std::string_view cue) {
    std::vector<std::array<size_t, bytes_there_are>> steps(cue.size());
    size_t otherwise = 0;  // what a text that ended with one byte more is like where the cue does not go on
    for (size_t i = 0; i < cue.size(); ++i) {
        const auto wanted = static_cast<uint8_t>(cue[i]);
        if (i > 0) steps[i] = steps[otherwise];
        if (i > 0) otherwise = steps[otherwise][wanted];
        steps[i][wanted] = i + 1;
    }
    return steps;
}

}  // namespace

Node free_text(ByteGrammar& grammar, std::string_view cue, Node behind, bool may_end, Node next) {
    const auto steps = steps_of(cue);
    std::vector<ByteGrammar::Rule> matched;  // so many bytes of the cue
    for (size_t i = 0; i < cue.size(); ++i) matched.push_back(grammar.rule());
    const auto node_at = [&](size_t i) {
        return i == cue.size() ? behind : grammar.call(matched[i], ByteGrammar::end);
    };
    for (size_t i = 0; i < cue.size(); ++i) {
        const Node more = by_byte(
            grammar, [&](uint8_t byte) { return steps[i][byte]; }, node_at);
        grammar.define(matched[i], may_end ? grammar.either(ByteGrammar::end, more) : more);
    }
    return grammar.call(matched[0], next);
}

Node text_or_cued(ByteGrammar& grammar, std::string_view cue, Node behind, Node next) {
    const ByteGrammar::Rule anything = grammar.rule();
    const Node any_text = grammar.call(anything, ByteGrammar::end);
    grammar.define(anything, grammar.either(ByteGrammar::end, grammar.bytes(0, 0xFF, any_text)));
    Node node = behind;
    for (size_t i = cue.size(); i-- > 0;) {
        const auto place_of = [&](uint8_t byte) { return byte == static_cast<uint8_t>(cue[i]) ? 1U : 0U; };
        const auto node_at = [&](size_t place) { return place == 1 ? node : any_text; };
        node = grammar.either(ByteGrammar::end, by_byte(grammar, place_of, node_at));
    }
    const ByteGrammar::Rule all = grammar.rule(node);
    return grammar.call(all, next);
}

}  // namespace rondo
