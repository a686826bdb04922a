#include <algorithm>

#include "model/text/find_piece.hpp"
#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/print.hpp"
#include "model/text/jinja/text.hpp"

namespace rondo::jinja {

namespace {

/// A filter that maps text to text, whatever it is given; growth of a case mapping stays within twice the text.
template <std::string (*map)(std::string_view)>
Value map_text(Runtime& runtime, const Value& self, Arguments&) {
    const Text text = to_text(runtime, self);
    runtime.scan(8 * text->size());
    return runtime.text(map(*text));
}

Value trim(Runtime& runtime, const Value& self, Arguments& arguments) {
    const Text text = to_text(runtime, self);
    runtime.scan(8 * text->size());
    if (!arguments.has(0) || arguments[0].is<std::nullptr_t>())
        return runtime.text(std::string(strip(*text, Side::both)));
    const std::string_view chars = text_argument(arguments[0], "the characters to trim");
    runtime.take(chars.size() * sizeof(std::string_view));
    return runtime.text(std::string(strip(*text, Side::both, chars)));
}

Value string(Runtime& runtime, const Value& self, Arguments&) {
    return to_text(runtime, self);
}

Value replace(Runtime& runtime, const Value& self, Arguments& arguments) {
    const Text text = to_text(runtime, self), from = to_text(runtime, arguments[0]),
               to = to_text(runtime, arguments[1]);
    const bool limited = arguments.has(2) && !arguments[2].is<std::nullptr_t>();
    return replace_text(runtime, *text, *from, *to, limited ? integer_argument(arguments[2], "the count") : -1);
}

Value join(Runtime& runtime, const Value& self, Arguments& arguments) {
    const Text separator = arguments.has(0) ? to_text(runtime, arguments[0]) : std::make_shared<const std::string>();
    TextBuilder out(runtime);
    bool first = true;
    for (Value& item : items_of(runtime, self)) {
        if (!std::exchange(first, false)) out.append(*separator);
        runtime.step();
        print(out, arguments.has(1) ? follow_path(runtime, std::move(item), arguments[1]) : item);
    }
    return out.finish();
}

/// Lines after the first are indented unless empty; `first` and `blank` lift the two exceptions.
Value indent(Runtime& runtime, const Value& self, Arguments& arguments) {
    // Jinja adds a line end before splitting, so a text that ends in one keeps an empty last line.
    const std::string text = std::string(text_argument(self, "what is indented")) + "\n";
    size_t times = 4;
    std::string_view unit = " ";
    if (arguments.has(0)) {
        const std::string* given = arguments[0].text();
        times = given ? 1 : static_cast<size_t>(std::max<int64_t>(0, integer_argument(arguments[0], "the width")));
        if (given) unit = *given;
    }
    const bool first = arguments.has(1) && truthy(arguments[1]), blank = arguments.has(2) && truthy(arguments[2]);
    runtime.scan(8 * text.size());
    runtime.take(text.size() * sizeof(std::string_view));
    const std::vector<std::string_view> lines = split_lines(text);
    TextBuilder out(runtime);
    for (size_t i = 0; i < lines.size(); ++i) {
        if (i > 0) out.append("\n");
        if (i == 0 ? first : blank || !lines[i].empty()) out.append(times, unit);
        out.append(lines[i]);
    }
    return out.finish();
}

Value tojson(Runtime& runtime, const Value& self, Arguments& arguments) {
    JsonStyle style;
    style.ascii = arguments.has(0) && truthy(arguments[0]);
    style.sorted = arguments.has(3) && truthy(arguments[3]);
    if (const Value& indent = arguments[1]; arguments.has(1) && !indent.is<std::nullptr_t>()) {
        style.indented = true;
        style.item_separator = ",";
        if (indent.text()) {
            style.indent = *indent.text();
        } else {
            const int64_t width = std::max<int64_t>(0, integer_argument(indent, "the indent"));
            if (width > 1024) fail("an indent of tojson is wider than 1024", ErrorCode::out_of_range);
            style.indent.assign(static_cast<size_t>(width), ' ');
        }
    }
    if (const Value& separators = arguments[2]; arguments.has(2) && !separators.is<std::nullptr_t>()) {
        const std::vector<Value> pair = items_of(runtime, separators);
        if (pair.size() != 2) fail("the separators of tojson must be two strings");
        style.item_separator = text_argument(pair[0], "a separator");
        style.key_separator = text_argument(pair[1], "a separator");
    }
    TextBuilder out(runtime);
    print_json(out, self, style);
    return out.finish();
}

}  // namespace

Value replace_text(Runtime& runtime, std::string_view text, std::string_view from, std::string_view to, int64_t count) {
    runtime.scan(2 * text.size());
    size_t left = count < 0 ? no_limit : static_cast<size_t>(count);
    TextBuilder out(runtime);
    if (from.empty()) {
        // Python puts the new text before every character and at the end.
        size_t at = 0;
        for (size_t size; left > 0 && at < text.size(); at += size, --left) {
            decode(text, at, size);
            out.append(to);
            out.append(text.substr(at, size));
        }
        if (left > 0) out.append(to);
        out.append(text.substr(std::min(at, text.size())));
    } else {
        for (size_t at; left > 0 && (at = find_piece(text, from)) != std::string_view::npos; --left) {
            out.append(text.substr(0, at));
            out.append(to);
            text.remove_prefix(at + from.size());
        }
        out.append(text);
    }
    return out.finish();
}

std::span<const Builtin> text_filters() {
    static constexpr Builtin table[] = {
        {"trim", "chars?", trim},
        {"upper", "", map_text<upper>},
        {"lower", "", map_text<lower>},
        {"capitalize", "", map_text<capitalize>},
        {"title", "", map_text<title_filter>},
        {"string", "", string},
        {"safe", "", string},
        {"replace", "old new count?", replace},
        {"join", "d? attribute?", join},
        {"indent", "width? first? blank?", indent},
        {"tojson", "ensure_ascii? indent? separators? sort_keys?", tojson},
    };
    return table;
}

}  // namespace rondo::jinja
