#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/print.hpp"
#include "model/text/jinja/text.hpp"

namespace rondo::jinja {

namespace {

void append_unit(std::string& out, unsigned unit) {
    char buffer[8];
    std::snprintf(buffer, sizeof buffer, "\\u%04x", unit & 0xFFFF);
    out += buffer;
}

void print_json_text(TextBuilder& out, std::string_view text, bool ascii) {
    std::string piece = "\"";
    for (size_t at = 0, size; at < text.size(); at += size) {
        const char32_t c = decode(text, at, size);
        static constexpr std::string_view plain = "\"\\\n\r\t\f\b", escaped = "\"\\nrtfb";
        const size_t known = c < 0x80 ? plain.find(static_cast<char>(c)) : std::string_view::npos;
        if (known != std::string_view::npos)
            piece += {'\\', escaped[known]};
        else if (c < 0x20 || (ascii && c >= 0x7F && c <= 0xFFFF))
            append_unit(piece, c);
        else if (ascii && c > 0xFFFF) {
            append_unit(piece, 0xD800 + ((c - 0x10000) >> 10));
            append_unit(piece, 0xDC00 + (c & 0x3FF));
        } else
            piece += text.substr(at, size);
        if (piece.size() > 1024) {
            out.append(piece);
            piece.clear();
        }
    }
    piece.push_back('"');
    out.append(piece);
}

std::string json_number(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return float_text(number);
}

/// One value after the other, at a depth of indentation.
class JsonPrinter {
public:
    JsonPrinter(TextBuilder& out, const JsonStyle& style) : out_(out), style_(style) {}

    void print(const Value& value, size_t level) {
        out_.runtime().step();
        if (const std::string* text = value.text())
            print_json_text(out_, *text, style_.ascii);
        else if (const Dict* dict = value.dict())
            print_dict(*dict, level);
        else if (const Sequence* sequence = value.sequence(); sequence && sequence->kind <= Sequence::Kind::tuple)
            print_list(*sequence, level);
        else
            out_.append(scalar(value));
    }

private:
    static std::string scalar(const Value& value) {
        if (value.is<std::nullptr_t>()) return "null";
        if (const bool* flag = value.as<bool>()) return *flag ? "true" : "false";
        if (const int64_t* number = value.as<int64_t>()) return std::to_string(*number);
        if (const double* number = value.as<double>()) return json_number(*number);
        fail("tojson cannot write a " + std::string(value.type_name()));
    }

    void begin_line(size_t level) {
        if (!style_.indented) return;
        out_.append("\n");
        out_.append(level, style_.indent);
    }

    void print_list(const Sequence& list, size_t level) {
        out_.append("[");
        for (size_t i = 0; i < list.items.size(); ++i) {
            if (i > 0) out_.append(style_.item_separator);
            begin_line(level + 1);
            print(list.items[i], level + 1);
        }
        if (!list.items.empty()) begin_line(level);
        out_.append("]");
    }

    void print_dict(const Dict& dict, size_t level) {
        auto entries = dict.entries;
        out_.runtime().take(entries.size() * 2 * sizeof(Value));
        if (style_.sorted)
            std::stable_sort(entries.begin(), entries.end(), [&](const auto& a, const auto& b) {
                return is_ordered(out_.runtime(), Comparison::less, a.first, b.first);
            });
        out_.append("{");
        for (size_t i = 0; i < entries.size(); ++i) {
            if (i > 0) out_.append(style_.item_separator);
            begin_line(level + 1);
            const Value& key = entries[i].first;
            print_json_text(out_, key.text() ? *key.text() : key.sequence() ? fail_key() : scalar(key), style_.ascii);
            out_.append(style_.key_separator);
            print(entries[i].second, level + 1);
        }
        if (!entries.empty()) begin_line(level);
        out_.append("}");
    }

    [[noreturn]] static std::string fail_key() { fail("tojson cannot write a tuple as a key"); }

    TextBuilder& out_;
    const JsonStyle& style_;
};

/// Builds values straight from the parser's events, so nothing is held twice and every number is seen as it was
/// written.
class JsonReader : public nlohmann::json_sax<nlohmann::json> {
public:
    JsonReader(Runtime& runtime, std::string_view what) : runtime_(runtime), what_(what) {}
    Value root;

    bool null() override { return add(nullptr); }
    bool boolean(bool value) override { return add(value); }
    bool number_integer(number_integer_t value) override { return add(int64_t{value}); }
    bool number_unsigned(number_unsigned_t value) override {
        if (value > static_cast<uint64_t>(INT64_MAX)) refuse_integer();
        return add(static_cast<int64_t>(value));
    }
    bool number_float(number_float_t value, const string_t& written) override {
        if (written.find_first_of(".eE") == std::string::npos) refuse_integer();
        return add(value);
    }
    bool string(string_t& value) override { return add(runtime_.text(std::move(value))); }
    bool binary(binary_t&) override { return false; }
    bool start_object(size_t) override { return open(true); }
    bool start_array(size_t) override { return open(false); }
    bool key(string_t& name) override {
        levels_.back().key = runtime_.text(std::move(name));
        return true;
    }
    bool end_object() override {
        Value value = runtime_.dict(std::move(levels_.back().entries));
        levels_.pop_back();
        return add(std::move(value));
    }
    bool end_array() override {
        Value value = runtime_.list(std::move(levels_.back().items));
        levels_.pop_back();
        return add(std::move(value));
    }
    bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception&) override {
        fail("cannot read " + std::string(what_) + ": not valid JSON at byte " + std::to_string(at));
    }

private:
    struct Level {
        bool object;
        Value key;
        std::vector<Value> items;
        std::vector<std::pair<Value, Value>> entries;
    };

    bool open(bool object) {
        if (levels_.size() >= limits::json_depth_max)
            fail("cannot read " + std::string(what_) + ": nested deeper than " + std::to_string(limits::json_depth_max),
                 ErrorCode::out_of_range);
        levels_.push_back({object, {}, {}, {}});
        return true;
    }

    [[noreturn]] void refuse_integer() const {
        fail("cannot read " + std::string(what_) + ": an integer beyond 64 bits");
    }

    bool add(Value value) {
        runtime_.step();
        runtime_.take(2 * sizeof(Value));
        if (levels_.empty())
            root = std::move(value);
        else if (levels_.back().object)
            levels_.back().entries.emplace_back(levels_.back().key, std::move(value));
        else
            levels_.back().items.push_back(std::move(value));
        return true;
    }

    Runtime& runtime_;
    std::string_view what_;
    std::vector<Level> levels_;
};

}  // namespace

void print_json(TextBuilder& out, const Value& value, const JsonStyle& style) {
    JsonPrinter(out, style).print(value, 0);
}

Value parse_json(Runtime& runtime, std::string_view json, std::string_view what) {
    runtime.take(json.size());
    JsonReader reader(runtime, what);
    nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
    return std::move(reader.root);
}

}  // namespace rondo::jinja
