#include <array>
#include <utility>

#include "config/in_quotes.hpp"
#include "model/text/tokenizer_regex.hpp"
#include "model/text/unicode.hpp"

namespace rondo {

namespace {

// Oniguruma's \w inside brackets, and what its table of Latin-1 adds to it outside: superscript digits and fractions.
constexpr std::string_view word_members = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}";
constexpr std::string_view word_members_outside =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

Error cannot(const std::string& what) {
    return make_error(ErrorCode::unsupported, what + " is not supported");
}

bool is_alphanumeric(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_hexadecimal(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// One walk over a pattern. Copies what both syntaxes share; keeps where the last atom began, for quantifiers that have
/// to be put around it.
class Translation {
public:
    explicit Translation(std::string_view pattern) : in_(pattern) {}

    Result<std::string> run() {
        while (at_ < in_.size()) RONDO_TRY(item());
        return std::move(out_);
    }

private:
    bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }
    void copy(size_t bytes) {
        out_ += in_.substr(at_, bytes);
        at_ += bytes;
    }
    void atom_begins_at(size_t place) {
        atom_ = place;
        alternative_empty_ = false;
    }

    Status item();
    Status group();
    Status options();
    Status escape(bool in_class);
    Status hexadecimal();
    Status property();
    Status character_class();
    Status interval();

    std::string_view in_;
    size_t at_ = 0;
    std::string out_;
    size_t atom_ = 0;             // where in out_ the last atom began
    std::vector<size_t> groups_;  // where the open groups began
    bool alternative_empty_ = true;
};

Status Translation::item() {
    switch (in_[at_]) {
        case '\\':
            atom_begins_at(out_.size());
            return escape(false);
        case '[':
            atom_begins_at(out_.size());
            return character_class();
        case '(':
            return group();
        case ')':
            if (groups_.empty()) return make_error(ErrorCode::unsupported, "')' without '('");
            atom_begins_at(groups_.back());
            groups_.pop_back();
            copy(1);
            return Status::ok();
        case '{':
            return interval();
        case '*':
        case '+':
        case '?':
            copy(1);
            return Status::ok();
        case '|':
            copy(1);
            alternative_empty_ = true;
            return Status::ok();
        case '^':
            // The same, but PCRE2 says where it would have to see what follows.
            atom_begins_at(out_.size());
            out_ += R"((?:\A|(?<=\n)(?!\z)))";
            ++at_;
            return Status::ok();
        default:
            atom_begins_at(out_.size());
            copy(unicode::length_of(in_[at_]));
            return Status::ok();
    }
}

Status Translation::group() {
    if (next_is("(*")) return cannot("'(*'");
    if (next_is("(?~")) return cannot("the absence operator '(?~'");
    if (next_is("(?#")) {
        const size_t end = in_.find(')', at_);
        if (end == std::string_view::npos) return make_error(ErrorCode::unsupported, "'(?#' without ')'");
        at_ = end + 1;
        return Status::ok();
    }
    const bool at_beginning = alternative_empty_;
    groups_.push_back(out_.size());
    alternative_empty_ = true;
    copy(1);
    if (!next_is("?")) return Status::ok();
    copy(1);
    const char kind = at_ < in_.size() ? in_[at_] : '\0';
    const bool sets_options = kind == '-' || (kind >= 'a' && kind <= 'z');
    if (sets_options) {
        RONDO_TRY(options());
        if (next_is(")")) {
            // Up to the end of the group both mean the same only where nothing of the alternative stands before it.
            if (!at_beginning) return cannot("an option in the middle of an alternative");
            copy(1);
            groups_.pop_back();
            return Status::ok();
        }
        if (!next_is(":")) return cannot("this group option");
        copy(1);
    } else if (next_is("<=") || next_is("<!")) {
        copy(2);
    } else if (kind == '<') {
        const size_t end = in_.find('>', at_);
        if (end == std::string_view::npos) return make_error(ErrorCode::unsupported, "'(?<' without '>'");
        copy(end + 1 - at_);
    } else if (kind == ':' || kind == '=' || kind == '!' || kind == '>') {
        copy(1);
    } else {
        return cannot("this kind of group");
    }
    return Status::ok();
}

// Ruby's m lets a dot match a newline, which PCRE2 calls s.
Status Translation::options() {
    for (; at_ < in_.size() && in_[at_] != ':' && in_[at_] != ')'; ++at_) {
        const char c = in_[at_];
        if (c != 'i' && c != 'm' && c != '-') return cannot("group option '" + std::string(1, c) + "'");
        out_ += c == 'm' ? 's' : c;
    }
    return Status::ok();
}

Status Translation::escape(bool in_class) {
    if (at_ + 1 >= in_.size()) return make_error(ErrorCode::unsupported, "'\\' at its end");
    const char c = in_[at_ + 1];
    const auto put = [&](std::string_view text) {
        out_ += text;
        at_ += 2;
        return Status::ok();
    };
    const auto put_members = [&](std::string_view members, bool outside) {
        if (outside && in_class) return Status(cannot("'\\" + std::string(1, c) + "' inside [ ]"));
        const std::string text(members);
        return put(in_class ? text : (outside ? "[^" : "[") + text + "]");
    };
    const std::string word = "[" + std::string(word_members_outside) + "]";
    switch (c) {
        case 'p':
        case 'P':
            return property();
        case 's':
            return put("\\p{White_Space}");
        case 'S':
            return put("\\P{White_Space}");
        case 'd':
            return put("\\p{Nd}");
        case 'D':
            return put("\\P{Nd}");
        case 'w':
        case 'W':
            return put_members(in_class ? word_members : word_members_outside, c == 'W');
        case 'h':
        case 'H':
            return put_members("0-9A-Fa-f", c == 'H');
        case 'v':
            return put("\\x{0b}");
        case 'b':
            return put(in_class ? "\\x{08}"
                                : "(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word + ")(?=" + word + "))");
        case 'B':
            return put("(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" + word + "))");
        case 't':
        case 'n':
        case 'r':
        case 'f':
        case 'a':
        case 'e':
        case 'A':
        case 'z':
        case 'Z':
        case 'R':
        case 'X':
        case 'K':
            copy(2);
            return Status::ok();
        case 'u':
        case 'x':
            return hexadecimal();
        default:
            if (is_alphanumeric(c)) return cannot("'\\" + std::string(1, c) + "'");
            ++at_;
            out_ += '\\';
            copy(unicode::length_of(in_[at_]));
            return Status::ok();
    }
}

// \uHHHH, \xH, \xHH and \x{H…} are characters; beyond \x7f the short form is a byte to Oniguruma.
Status Translation::hexadecimal() {
    const bool braces = next_is("\\x{");
    const size_t from = at_ + (braces ? 3 : 2), count_max = braces ? 8 : in_[at_ + 1] == 'u' ? 4 : 2;
    size_t end = from;
    while (end < in_.size() && end - from < count_max && is_hexadecimal(in_[end])) ++end;
    const std::string_view digits = in_.substr(from, end - from);
    const bool closed = !braces || (end < in_.size() && in_[end] == '}');
    if (digits.empty() || !closed || (in_[at_ + 1] == 'u' && digits.size() < 4)) {
        return make_error(ErrorCode::unsupported, "'\\x' or '\\u' without its hexadecimal digits");
    }
    if (count_max == 2 && digits.size() == 2 && digits[0] >= '8') return cannot("a byte beyond \\x7f");
    out_ += "\\x{" + std::string(digits) + "}";
    at_ = end + (braces ? 1 : 0);
    return Status::ok();
}

// Oniguruma knows categories by their long names too, and a script's name means the script, not its extensions.
Status Translation::property() {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> long_names{{
        {"Letter", "L"},
        {"Mark", "M"},
        {"Number", "N"},
        {"Punctuation", "P"},
        {"Symbol", "S"},
        {"Separator", "Z"},
        {"Other", "C"},
        {"Uppercase_Letter", "Lu"},
        {"Lowercase_Letter", "Ll"},
        {"Titlecase_Letter", "Lt"},
        {"Decimal_Number", "Nd"},
        {"Nonspacing_Mark", "Mn"},
    }};
    static constexpr std::array<std::string_view, 8> binary{
        "Any", "Alphabetic", "Uppercase", "Lowercase", "White_Space", "Emoji", "Ideographic", "Extended_Pictographic"};
    const size_t end = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || end == std::string_view::npos)
        return cannot("'\\p' without a name in braces");
    out_ += in_.substr(at_, 3);
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    at_ = end + 1;
    if (name.starts_with('^')) {
        out_ += '^';
        name.remove_prefix(1);
    }
    std::string translated = name.size() <= 2 ? std::string(name) : "sc:" + std::string(name);
    for (const auto& known : binary)
        if (name == known) translated = name;
    for (const auto& [known, category] : long_names)
        if (name == known) translated = category;
    out_ += translated + "}";
    return Status::ok();
}

Status Translation::character_class() {
    copy(1);
    if (next_is("^")) copy(1);
    if (next_is("]")) copy(1);
    while (at_ < in_.size()) {
        const char c = in_[at_];
        if (c == ']') {
            copy(1);
            return Status::ok();
        }
        if (c == '[') return cannot("'[' inside [ ]");
        if (next_is("&&")) return cannot("'&&' inside [ ]");
        if (c == '\\') {
            RONDO_TRY(escape(true));
        } else {
            copy(unicode::length_of(c));
        }
    }
    return make_error(ErrorCode::unsupported, "'[' without ']'");
}

// {,n} counts from zero; a '+' after an interval repeats it (only ?, * and + become possessive), and {n}? is optional.
Status Translation::interval() {
    const auto digits = [&](size_t from) {
        size_t end = from;
        while (end < in_.size() && in_[end] >= '0' && in_[end] <= '9') ++end;
        return end;
    };
    const size_t least_end = digits(at_ + 1);
    const bool comma = least_end < in_.size() && in_[least_end] == ',';
    const size_t most_end = comma ? digits(least_end + 1) : least_end;
    const bool has_least = least_end > at_ + 1, has_most = comma && most_end > least_end + 1;
    if (most_end >= in_.size() || in_[most_end] != '}' || (!has_least && !has_most)) {
        atom_begins_at(out_.size());
        out_ += "\\{";
        ++at_;
        return Status::ok();
    }
    out_ += has_least ? "{" : "{0";
    ++at_;
    copy(most_end + 1 - at_);
    if (next_is("+") || (next_is("?") && !comma)) {
        out_.insert(atom_, "(?:");
        out_ += ')';
        copy(1);
    }
    return Status::ok();
}

}  // namespace

Result<std::string> pcre2_from_oniguruma(std::string_view pattern) {
    return Translation(pattern).run();
}

}  // namespace rondo
