#include "model/format/pattern.hpp"

#include <map>
#include <utility>
#include <vector>

#include "config/limits.hpp"
#include "model/format/regex_parser.hpp"
#include "model/format/schema_fields.hpp"

namespace rondo {

namespace {

using Node = ByteGrammar::Node;

class PatternNodes {
public:
    PatternNodes(ByteGrammar& grammar, JsonParts& parts) : grammar_(grammar), parts_(parts) {}

    Node string(const std::vector<RegexWay>& ways) {
        Node all = ByteGrammar::never;
        const Node close = grammar_.text("\"", ByteGrammar::end);
        const auto any = [&](Node next) { return characters(Characters::all(), next); };
        for (const RegexWay& way : ways) {
            Node node = node_of(way.part, way.to_end ? close : grammar_.times(0, -1, any, close));
            if (!way.from_begin) node = grammar_.times(0, -1, any, node);
            all = grammar_.either(node, all);
        }
        return grammar_.text("\"", all);
    }

private:
    Node node_of(const RegexPart& part, Node next) {
        if (grammar_.is_full()) return ByteGrammar::never;
        switch (part.kind) {
            case RegexPart::Kind::characters:
                return characters(part.characters, next);
            case RegexPart::Kind::sequence:
                for (size_t i = part.parts.size(); i > 0; --i) next = node_of(part.parts[i - 1], next);
                return next;
            case RegexPart::Kind::choice: {
                Node all = ByteGrammar::never;
                for (const RegexPart& each : part.parts) all = grammar_.either(node_of(each, next), all);
                return all;
            }
            case RegexPart::Kind::times:
                return grammar_.times(
                    part.least, part.most, [&](Node then) { return node_of(part.parts.front(), then); }, next);
        }
        return ByteGrammar::never;
    }

    /// One rule for each set: many are asked for again and again.
    Node characters(const Characters& characters, Node next) {
        for (const auto& [known, rule] : rules_)
            if (known == characters) return grammar_.call(rule, next);
        rules_.emplace_back(characters, grammar_.rule(parts_.in_string(characters, ByteGrammar::end)));
        return grammar_.call(rules_.back().second, next);
    }

    ByteGrammar& grammar_;
    JsonParts& parts_;
    std::vector<std::pair<Characters, ByteGrammar::Rule>> rules_;
};

}  // namespace

Result<Node> string_of_pattern(std::string_view pattern, const std::string& path, ByteGrammar& grammar,
                               JsonParts& parts) {
    if (pattern.size() > limits::regex_bytes_max)
        return wrong_schema(path, "pattern", "of up to " + std::to_string(limits::regex_bytes_max) + " bytes");
    const ParsedRegex parsed = parse_regex(pattern);
    if (parsed.wrong_at) {
        return wrong_schema(path, "pattern",
                            "a regular expression without look-around, back-references and word boundaries; it is none "
                            "from byte " +
                                std::to_string(*parsed.wrong_at) + " on");
    }
    return PatternNodes(grammar, parts).string(parsed.ways);
}

std::string_view pattern_of_format(std::string_view format) {
    static const std::string date =
        R"([12]\d{3}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8])))";
    static const std::string time = R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))";
    static const std::string byte = R"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))";
    // Bounded, so that no model writes a name for ever.
    static const std::string word = "[a-z0-9]{1,16}";
    static const std::string host = "(" + word + "(-" + word + R"(){0,2}\.){1,3}[a-z]{2,6})";
    static const std::map<std::string_view, std::string> patterns = {
        {"date", "^" + date + "$"},
        {"time", "^" + time + "$"},
        {"date-time", "^" + date + "T" + time + "$"},
        {"uuid", "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
        {"ipv4", "^(" + byte + R"(\.){3})" + byte + "$"},
        {"email", "^" + word + "([._+-]" + word + "){0,3}@" + host + "$"},
        {"uri", "^https?://" + host + "(/[A-Za-z0-9._~-]{1,32}){0,8}/?$"},
    };
    const auto found = patterns.find(format);
    return found == patterns.end() ? std::string_view() : found->second;
}

}  // namespace rondo
