#include "model/text/jinja/print.hpp"

#include <charconv>
#include <cmath>

#include "model/text/jinja/text.hpp"

namespace rondo::jinja {

namespace {

void append_hex(std::string& out, char kind, unsigned digits, char32_t code_point) {
    static constexpr char alphabet[] = "0123456789abcdef";
    out += {'\\', kind};
    for (unsigned i = digits; i-- > 0;) out.push_back(alphabet[(code_point >> (4 * i)) & 15]);
}

/// Python's repr of a string: single quotes unless only double ones save an escape.
void print_quoted(TextBuilder& out, std::string_view text) {
    const bool has_single = text.find('\'') != std::string_view::npos;
    const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
    std::string piece(1, quote);
    for (size_t at = 0, size; at < text.size(); at += size) {
        const char32_t c = decode(text, at, size);
        if (c == static_cast<char32_t>(quote) || c == '\\')
            piece += {'\\', static_cast<char>(c)};
        else if (c == '\n')
            piece += "\\n";
        else if (c == '\r')
            piece += "\\r";
        else if (c == '\t')
            piece += "\\t";
        else if (is_printable(c))
            piece += text.substr(at, size);
        else if (c <= 0xFF)
            append_hex(piece, 'x', 2, c);
        else
            append_hex(piece, c <= 0xFFFF ? 'u' : 'U', c <= 0xFFFF ? 4 : 8, c);
        if (piece.size() > 1024) {
            out.append(piece);
            piece.clear();
        }
    }
    piece.push_back(quote);
    out.append(piece);
}

void print_repr(TextBuilder& out, const Value& value);

void print_items(TextBuilder& out, const Sequence& sequence) {
    static constexpr std::pair<std::string_view, std::string_view> brackets[] = {
        {"[", "]"}, {"(", ")"}, {"", ""}, {"dict_keys([", "])"}, {"dict_values([", "])"}, {"dict_items([", "])"}};
    if (sequence.kind == Sequence::Kind::lazy || sequence.kind == Sequence::Kind::range)
        fail("a range or lazy sequence has no text of its own; |list would give it one", ErrorCode::unsupported);
    const auto [open, close] = brackets[static_cast<size_t>(sequence.kind)];
    out.append(open);
    for (size_t i = 0; i < sequence.items.size(); ++i) {
        if (i > 0) out.append(", ");
        print_repr(out, sequence.items[i]);
    }
    if (sequence.kind == Sequence::Kind::tuple && sequence.items.size() == 1) out.append(",");
    out.append(close);
}

void print_repr(TextBuilder& out, const Value& value) {
    out.runtime().step();
    if (const std::string* text = value.text()) return print_quoted(out, *text);
    if (value.is<Undefined>()) return out.append("Undefined");
    if (const Sequence* sequence = value.sequence()) return print_items(out, *sequence);
    if (const Dict* dict = value.dict()) {
        out.append("{");
        for (size_t i = 0; i < dict->entries.size(); ++i) {
            if (i > 0) out.append(", ");
            print_repr(out, dict->entries[i].first);
            out.append(": ");
            print_repr(out, dict->entries[i].second);
        }
        return out.append("}");
    }
    print(out, value);
}

}  // namespace

std::string float_text(double number) {
    if (std::isnan(number)) return "nan";
    if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
    char buffer[32];
    const auto result = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific);
    const std::string shortest(buffer, result.ptr);
    const size_t mark = shortest.find('e');
    const int exponent = std::stoi(shortest.substr(mark + 1));
    if (exponent < -4 || exponent >= 16) return shortest;
    std::string digits;
    for (char c : shortest.substr(0, mark))
        if (c >= '0' && c <= '9') digits.push_back(c);
    const std::string sign = shortest[0] == '-' ? "-" : "";
    if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
    const auto whole = static_cast<size_t>(exponent) + 1;
    if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
    return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

void print(TextBuilder& out, const Value& value) {
    if (value.is<Undefined>()) return;
    if (const std::string* text = value.text()) return out.append(*text);
    if (value.is<std::nullptr_t>()) return out.append("None");
    if (const bool* flag = value.as<bool>()) return out.append(*flag ? "True" : "False");
    if (const int64_t* number = value.as<int64_t>()) return out.append(std::to_string(*number));
    if (const double* number = value.as<double>()) return out.append(float_text(*number));
    if (value.sequence() || value.dict()) return print_repr(out, value);
    fail("a " + std::string(value.type_name()) + " has no text of its own", ErrorCode::unsupported);
}

Text to_text(Runtime& runtime, const Value& value) {
    if (const Text* text = value.as<Text>()) return *text;
    TextBuilder out(runtime);
    print(out, value);
    return std::make_shared<const std::string>(std::move(out.str()));
}

}  // namespace rondo::jinja
