#include "model/format/regex_parser.hpp"

#include <algorithm>
#include <utility>

#include "config/limits.hpp"
#include "model/text/unicode.hpp"

namespace rondo {

namespace {

Characters digits() {
    return Characters({{'0', '9'}});
}
Characters word() {
    return Characters({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
}
Characters space() {
    return Characters({{0x9, 0xD},
                       {' ', ' '},
                       {0xA0, 0xA0},
                       {0x1680, 0x1680},
                       {0x2000, 0x200A},
                       {0x2028, 0x2029},
                       {0x202F, 0x202F},
                       {0x205F, 0x205F},
                       {0x3000, 0x3000},
                       {0xFEFF, 0xFEFF}});
}
Characters line_ends() {
    return Characters({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});
}

std::optional<uint32_t> hex_of(std::string_view text) {
    uint32_t value = 0;
    for (const char each : text) {
        const auto digit = std::string_view("0123456789abcdef")
                               .find(static_cast<char>(each | ('A' <= each && each <= 'F' ? 0x20 : 0)));
        if (digit == std::string_view::npos) return std::nullopt;
        value = value * 16 + static_cast<uint32_t>(digit);
    }
    return value;
}

/// Recursive descent. The first thing wrong ends it: `wrong_` tells where.
class RegexParser {
public:
    explicit RegexParser(std::string_view text) : text_(text) {}

    ParsedRegex parse() {
        ParsedRegex parsed;
        do {
            RegexWay way;
            way.from_begin = take('^');
            way.part = sequence(0);
            way.to_end = take('$');
            parsed.ways.push_back(std::move(way));
        } while (!wrong_ && take('|'));
        if (!wrong_ && at_ < text_.size()) fail();
        parsed.wrong_at = wrong_;
        return parsed;
    }

private:
    void fail() {
        if (!wrong_) wrong_ = at_;
    }
    bool ended() const { return wrong_ || at_ >= text_.size(); }
    bool is_next(char wanted) const { return !ended() && text_[at_] == wanted; }
    bool take(char wanted) {
        if (!is_next(wanted)) return false;
        ++at_;
        return true;
    }

    RegexPart choice(size_t depth) {
        RegexPart all{.kind = RegexPart::Kind::choice};
        do {
            all.parts.push_back(sequence(depth));
        } while (take('|'));
        return all;
    }

    RegexPart sequence(size_t depth) {
        RegexPart all;
        while (!ended() && !is_next('|') && !is_next(')') && !is_next('$')) {
            RegexPart part = one(depth);
            if (!wrong_) repeat(part);
            all.parts.push_back(std::move(part));
        }
        return all;
    }

    RegexPart one(size_t depth) {
        RegexPart part{.kind = RegexPart::Kind::characters};
        if (take('(')) {
            if (depth >= limits::regex_depth_max) return fail(), part;
            if (take('?') && !take(':')) return fail(), part;
            part = choice(depth + 1);
            if (!take(')')) fail();
        } else if (take('[')) {
            part.characters = bracket();
        } else if (take('.')) {
            part.characters = ~line_ends();
        } else if (take('\\')) {
            part.characters = escape();
        } else if (std::string_view("*+?{^").find(text_[at_]) != std::string_view::npos) {
            fail();
        } else {
            part.characters = Characters::one(character());
        }
        return part;
    }

    /// Wraps the part, where it is followed by how often it comes.
    void repeat(RegexPart& part) {
        RegexPart times{.kind = RegexPart::Kind::times};
        if (take('+')) {
            times.least = 1;
        } else if (take('?')) {
            times.most = 1;
        } else if (take('{')) {
            const auto least = count();
            if (!least) return fail();
            times.least = times.most = *least;
            if (take(',')) times.most = is_next('}') ? -1 : count().value_or(-2);
            if (!take('}') || times.most < -1 || (times.most >= 0 && times.most < times.least)) return fail();
        } else if (!take('*')) {
            return;
        }
        take('?');  // how much is tried first changes no set of texts
        times.parts.push_back(std::move(part));
        part = std::move(times);
    }

    std::optional<int64_t> count() {
        int64_t value = 0;
        const size_t begin = at_;
        while (!ended() && digits().has(static_cast<uint8_t>(text_[at_])) && at_ - begin < 6)
            value = value * 10 + (text_[at_++] - '0');
        return at_ > begin ? std::optional(value) : std::nullopt;
    }

    char32_t character() {
        const unicode::Decoded decoded = unicode::decode(text_, at_);
        at_ += decoded.bytes;
        return decoded.value;
    }

    /// Behind a backslash.
    Characters escape() {
        if (ended()) return fail(), Characters();
        const char32_t named = text_[at_] < 0 ? 0 : static_cast<char32_t>(text_[at_]);
        ++at_;
        switch (named) {
            case 'd':
                return digits();
            case 'D':
                return ~digits();
            case 'w':
                return word();
            case 'W':
                return ~word();
            case 's':
                return space();
            case 'S':
                return ~space();
            case 't':
                return Characters::one('\t');
            case 'n':
                return Characters::one('\n');
            case 'r':
                return Characters::one('\r');
            case 'f':
                return Characters::one('\f');
            case 'v':
                return Characters::one('\v');
            case 'x':
                return code(2);
            case 'u':
                return code(4);
            default:
                --at_;
                if (named == 0 || word().has(named)) return fail(), Characters();
                return Characters::one(character());
        }
    }

    Characters code(size_t count) {
        const auto value = at_ + count <= text_.size() ? hex_of(text_.substr(at_, count)) : std::nullopt;
        const Characters characters = value ? Characters::one(*value) & Characters::all() : Characters();
        if (characters.empty()) return fail(), Characters();
        at_ += count;
        return characters;
    }

    /// Behind its opening.
    Characters bracket() {
        const bool negated = take('^');
        Characters all;
        while (!wrong_ && !take(']')) {
            if (at_ >= text_.size()) return fail(), all;
            const Characters first = item();
            const bool is_range = is_next('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
            if (!is_range) {
                all = all | first;
                continue;
            }
            ++at_;
            const Characters last = item();
            if (!wrong_ && (!first.single() || !last.single() || *first.single() > *last.single())) fail();
            if (!wrong_) all = all | Characters({{*first.single(), *last.single()}});
        }
        return negated ? ~all : all;
    }

    Characters item() {
        return take('\\') ? escape() : ended() ? (fail(), Characters()) : Characters::one(character());
    }

    std::string_view text_;
    size_t at_ = 0;
    std::optional<size_t> wrong_;
};

}  // namespace

ParsedRegex parse_regex(std::string_view text) {
    return RegexParser(text).parse();
}

}  // namespace rondo
