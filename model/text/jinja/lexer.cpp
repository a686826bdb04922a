#include "model/text/jinja/lexer.hpp"

#include <algorithm>
#include <array>

#include "config/hex_value.hpp"
#include "config/limits.hpp"
#include "model/text/jinja/text.hpp"

namespace rondo::jinja {

namespace {

using Kind = Token::Kind;

bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Jinja sees one kind of line end only, and drops the last one of a template.
std::string normalize_lines(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (size_t i = 0; i < source.size(); ++i) {
        if (source[i] == '\r') {
            out.push_back('\n');
            if (source.substr(i + 1, 1) == "\n") ++i;
        } else {
            out.push_back(source[i]);
        }
    }
    if (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
}

class Lexer {
public:
    explicit Lexer(std::string_view source) : source_(source) {}

    std::vector<Token> run() {
        while (at_ < source_.size()) lex_data();
        add(Kind::end, "");
        return std::move(tokens_);
    }

private:
    char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
    bool starts_with(std::string_view piece) const { return source_.substr(at_).starts_with(piece); }
    void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
    [[noreturn]] void refuse(std::string message) const {
        fail(std::move(message), ErrorCode::invalid_argument, line_);
    }

    void skip(size_t count) {
        const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(at_);
        line_ += static_cast<int>(std::count(begin, begin + static_cast<std::ptrdiff_t>(count), '\n'));
        at_ += count;
        line_starting_ = at_ > 0 && source_[at_ - 1] == '\n';
    }

    void skip_space() {
        size_t size, end = at_;
        while (end < source_.size() && is_space(decode(source_, end, size))) end += size;
        skip(end - at_);
    }

    /// Text before a tag, with the white space that the tag's sign (or, for blocks, lstrip_blocks) takes from its end.
    void add_data(std::string_view text, char sign, bool is_output) {
        if (sign == '-') {
            text = strip(text, Side::right);
        } else if (sign != '+' && !is_output) {
            const size_t line = text.rfind('\n') + 1;  // 0 when there is none
            if ((line > 0 || line_starting_) && strip(text.substr(line), Side::left).empty())
                text = text.substr(0, line);
        }
        if (!text.empty()) add(Kind::data, std::string(text));
    }

    /// The close of a tag at `at_`: `%}` with a line end, or `-%}` with all white space, or `+%}` alone. False if none
    /// is here.
    bool skip_close(std::string_view close, bool trims_line, bool allows_plus) {
        if (starts_with(close)) {
            skip(2);
            if (trims_line && peek() == '\n') skip(1);
        } else if (peek() == '-' && source_.substr(at_ + 1).starts_with(close)) {
            skip(3);
            skip_space();
        } else if (allows_plus && peek() == '+' && source_.substr(at_ + 1).starts_with(close)) {
            skip(3);
        } else {
            return false;
        }
        return true;
    }

    /// `{% WORD` at `at` with any sign and spaces; the position behind the word, or npos.
    size_t find_keyword(size_t at, std::string_view word, char& sign) const {
        at += 2;
        sign = at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at++] : '\0';
        size_t size;
        while (at < source_.size() && is_space(decode(source_, at, size))) at += size;
        return source_.substr(at).starts_with(word) ? at + word.size() : std::string_view::npos;
    }

    void lex_data() {
        size_t begin = at_;
        while (begin + 1 < source_.size() &&
               !(source_[begin] == '{' && std::string_view("{%#").find(source_[begin + 1]) < 3))
            ++begin;
        if (begin + 1 >= source_.size()) {
            add(Kind::data, std::string(source_.substr(at_)));
            return skip(source_.size() - at_);
        }
        const char opener = source_[begin + 1];
        if (char sign; opener == '%' && lex_raw(begin, sign)) return;
        const char next = begin + 2 < source_.size() ? source_[begin + 2] : '\0';
        const char sign = next == '-' || next == '+' ? next : '\0';
        add_data(source_.substr(at_, begin - at_), sign, opener == '{');
        skip(begin - at_ + (sign ? 3 : 2));
        if (opener == '#') return lex_comment();
        add(opener == '{' ? Kind::output_begin : Kind::tag_begin, "");
        lex_expression(opener == '{');
    }

    /// A raw block if one begins at `begin`: its text is data as it stands.
    bool lex_raw(size_t begin, char& sign) {
        size_t end = find_keyword(begin, "raw", sign), size;
        if (end == std::string_view::npos) return false;
        while (end < source_.size() && is_space(decode(source_, end, size))) end += size;
        const std::string_view rest = source_.substr(end);
        if (!rest.starts_with("%}") && !rest.starts_with("-%}")) return false;
        add_data(source_.substr(at_, begin - at_), sign, false);
        skip(end - at_);
        skip_close("%}", false, false);
        for (size_t close = source_.find("{%", at_); close != std::string_view::npos;
             close = source_.find("{%", close + 2)) {
            size_t behind = find_keyword(close, "endraw", sign);
            if (behind == std::string_view::npos) continue;
            while (behind < source_.size() && is_space(decode(source_, behind, size))) behind += size;
            const std::string_view tail = source_.substr(behind);
            if (!tail.starts_with("%}") && !tail.starts_with("-%}") && !tail.starts_with("+%}")) continue;
            add_data(source_.substr(at_, close - at_), sign, false);
            skip(behind - at_);
            skip_close("%}", true, true);
            return true;
        }
        refuse("a raw block is not closed by {% endraw %}");
    }

    void lex_comment() {
        const size_t end = source_.find("#}", at_);
        if (end == std::string_view::npos) refuse("a comment is not closed by #}");
        const bool has_sign = end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
        skip(end - at_ - (has_sign ? 1 : 0));
        skip_close("#}", true, true);
    }

    void lex_expression(bool is_output) {
        while (at_ < source_.size()) {
            const int line = line_;
            if (open_.empty() && skip_close(is_output ? "}}" : "%}", !is_output, !is_output)) {
                tokens_.push_back({is_output ? Kind::output_end : Kind::tag_end, "", line});
                return;
            }
            size_t size;
            if (is_space(decode(source_, at_, size)))
                skip_space();
            else if (is_digit(peek()))
                lex_number();
            else if (is_name_start(peek()))
                lex_name();
            else if (peek() == '"' || peek() == '\'')
                lex_text();
            else
                lex_sign();
        }
    }

    void lex_name() {
        size_t end = at_;
        while (end < source_.size() && (is_name_start(source_[end]) || is_digit(source_[end]))) ++end;
        if (end - at_ > limits::name_bytes_max)
            fail("has a name longer than " + std::to_string(limits::name_bytes_max) + " bytes", ErrorCode::out_of_range,
                 line_);
        add(Kind::name, std::string(source_.substr(at_, end - at_)));
        skip(end - at_);
    }

    /// The end of a run of digits with single underscores between them, from `from`.
    template <class IsDigit>
    size_t digits_end(size_t from, IsDigit is_digit_here) const {
        size_t end = from;
        while (end < source_.size() &&
               (is_digit_here(source_[end]) || (source_[end] == '_' && end > from && end + 1 < source_.size() &&
                                                source_[end - 1] != '_' && is_digit_here(source_[end + 1]))))
            ++end;
        return end;
    }

    void lex_number() {
        const char base = static_cast<char>(peek(1) | 0x20);
        if (peek() == '0' && (base == 'x' || base == 'o' || base == 'b'))
            refuse("integers in base 2, 8 or 16 are not supported");
        size_t end = digits_end(at_, is_digit);
        Kind kind = Kind::integer;
        const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
        if (size_t fraction; !after_dot && end < source_.size() && source_[end] == '.' &&
                             (fraction = digits_end(end + 1, is_digit)) > end + 1) {
            end = fraction;
            kind = Kind::number;
        }
        if (!after_dot && end < source_.size() && (source_[end] | 0x20) == 'e') {
            const size_t sign =
                end + 1 < source_.size() && (source_[end + 1] == '+' || source_[end + 1] == '-') ? 1 : 0;
            if (size_t exponent = digits_end(end + 1 + sign, is_digit); exponent > end + 1 + sign) {
                end = exponent;
                kind = Kind::number;
            }
        }
        std::string digits(source_.substr(at_, end - at_));
        std::erase(digits, '_');
        if (kind == Kind::integer && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos)
            refuse("an integer begins with 0");
        add(kind, std::move(digits));
        skip(end - at_);
    }

    void lex_sign() {
        static constexpr std::array<std::string_view, 26> signs = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                                   "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                                   ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
        const auto found =
            std::find_if(signs.begin(), signs.end(), [&](std::string_view sign) { return starts_with(sign); });
        if (found == signs.end()) refuse("an unexpected character stands in an expression");
        const char c = peek();
        if (c == '(' || c == '[' || c == '{') open_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
        if (c == ')' || c == ']' || c == '}') {
            if (open_.empty() || open_.back() != c) refuse(std::string("an unexpected '") + c + "'");
            open_.pop_back();
        }
        add(Kind::sign, std::string(*found));
        skip(found->size());
    }

    void lex_text() {
        const char quote = peek();
        size_t end = at_ + 1;
        while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
        if (end >= source_.size()) refuse("a string is not closed");
        add(Kind::text, unescape(source_.substr(at_ + 1, end - at_ - 1)));
        skip(end + 1 - at_);
    }

    std::string unescape(std::string_view body) const;
    char32_t read_digits(std::string_view body, size_t& at, size_t least, size_t most, int base) const;

    std::string_view source_;
    size_t at_ = 0;
    int line_ = 1;
    bool line_starting_ = true;
    std::string open_;  ///< closers still owed in this expression
    std::vector<Token> tokens_;
};

char32_t Lexer::read_digits(std::string_view body, size_t& at, size_t least, size_t most, int base) const {
    char32_t value = 0;
    size_t count = 0;
    for (; count < most && at < body.size(); ++count, ++at) {
        const int digit = hex_value(body[at]);
        if (digit < 0 || digit >= base) break;
        value = value * static_cast<char32_t>(base) + static_cast<char32_t>(digit);
    }
    if (count < least) refuse("an escape in a string is cut short");
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) refuse("an escape in a string is no character");
    return value;
}

/// Python's escapes; an unknown one keeps its backslash.
std::string Lexer::unescape(std::string_view body) const {
    std::string out;
    for (size_t i = 0; i < body.size();) {
        const char c = body[i++];
        if (c != '\\') {
            out.push_back(c);
            continue;
        }
        const char kind = body[i++];  // the lexer saw to it that a backslash is not the last
        static constexpr std::string_view letters = "\\'\"abfnrtv", values = "\\'\"\a\b\f\n\r\t\v";
        if (const size_t known = letters.find(kind); known != std::string_view::npos)
            out.push_back(values[known]);
        else if (kind == 'x' || kind == 'u' || kind == 'U') {
            const size_t digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
            append_utf8(out, read_digits(body, i, digits, digits, 16));
        } else if (kind >= '0' && kind <= '7')
            append_utf8(out, read_digits(body, --i, 1, 3, 8));
        else if (kind == 'N' || static_cast<unsigned char>(kind) >= 0x80)
            refuse("an escape in a string is not supported");
        else if (kind != '\n')
            out += {'\\', kind};
    }
    return out;
}

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
    if (!is_valid_utf8(source)) fail("is not valid UTF-8");
    const std::string normalized = normalize_lines(source);
    return Lexer(normalized).run();
}

}  // namespace rondo::jinja
