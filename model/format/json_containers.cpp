#include "model/format/json_containers.hpp"

#include <algorithm>

namespace rondo {

using Node = ByteGrammar::Node;
using Rule = ByteGrammar::Rule;

Node list_of(ByteGrammar& grammar, JsonParts& parts, const JsonItems& items) {
    const auto first = std::ssize(items.first);
    const auto rule_at = [&](int64_t i) { return i < first ? items.first[static_cast<size_t>(i)] : items.rest; };
    const Node close = parts.close(']', ByteGrammar::end);
    const bool is_bounded = items.most >= 0;
    const int64_t counted = is_bounded ? items.most : std::max<int64_t>({items.least, first, 1});
    const auto more = [&](Node next) { return parts.comma(grammar.call(items.rest, next)); };
    // From the last item to the first: what may stand behind so many of them.
    Node behind = is_bounded ? close : grammar.times(0, -1, more, close);
    for (int64_t i = counted - 1; i > 0 && !grammar.is_full(); --i) {
        behind = parts.comma(grammar.call(rule_at(i), behind));
        if (i >= items.least) behind = grammar.either(behind, close);
    }
    Node inside = items.most == 0 ? ByteGrammar::never : grammar.call(rule_at(0), behind);
    if (items.least == 0) inside = grammar.either(grammar.text("]", ByteGrammar::end), inside);
    return grammar.text("[", parts.gap(inside));
}

Node object_of(ByteGrammar& grammar, JsonParts& parts, const std::vector<JsonMember>& members,
               std::optional<Rule> others) {
    // From the last member to the first: what may stand behind others, and where none came yet.
    Node filled = parts.close('}', ByteGrammar::end);
    Node empty = grammar.text("}", ByteGrammar::end);
    if (others) {
        std::vector<std::string> names;
        for (const JsonMember& member : members) names.push_back(member.name);
        const auto other = [&](Node next) { return parts.other_name(names, grammar.call(*others, next)); };
        filled = grammar.times(
            0, -1, [&](Node next) { return parts.comma(other(next)); }, filled);
        empty = grammar.either(other(filled), empty);
    }
    for (size_t i = members.size(); i-- > 0 && !grammar.is_full();) {
        const Node member = parts.name(members[i].name, grammar.call(members[i].value, filled));
        empty = members[i].required ? member : grammar.either(member, empty);
        const Node behind = parts.comma(member);
        filled = members[i].required ? behind : grammar.either(behind, filled);
    }
    return grammar.text("{", parts.gap(empty));
}

}  // namespace rondo
