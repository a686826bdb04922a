#include <algorithm>

#include "model/text/find_piece.hpp"
#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/eval.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/print.hpp"
#include "model/text/jinja/text.hpp"

namespace rondo::jinja {

namespace {

bool is_given(const Arguments& arguments, size_t i) {
    return arguments.has(i) && !arguments[i].is<std::nullptr_t>();
}

/// The text a method was called on. Every method below reads it once or a few times.
std::string_view scanned(Runtime& runtime, const Value& self) {
    runtime.scan(8 * self.text()->size());
    return *self.text();
}

template <Side side>
Value strip_method(Runtime& runtime, const Value& self, Arguments& arguments) {
    const std::string_view text = scanned(runtime, self);
    if (!is_given(arguments, 0)) return runtime.text(std::string(strip(text, side)));
    const std::string_view chars = text_argument(arguments[0], "the characters to strip");
    runtime.take(chars.size() * sizeof(std::string_view));
    return runtime.text(std::string(strip(text, side, chars)));
}

template <std::string (*map)(std::string_view)>
Value map_method(Runtime& runtime, const Value& self, Arguments&) {
    return runtime.text(map(scanned(runtime, self)));
}

Value to_list(Runtime& runtime, const std::vector<std::string_view>& pieces) {
    runtime.step(pieces.size() / 4);
    std::vector<Value> items;
    for (std::string_view piece : pieces) items.push_back(runtime.text(std::string(piece)));
    return runtime.list(std::move(items));
}

/// What a list of `count` pieces costs besides their text, charged before the list of views is built.
void take_pieces(Runtime& runtime, size_t count) {
    runtime.take(count * (sizeof(std::string_view) + sizeof(Value) + 16));
}

Value split_method(Runtime& runtime, const Value& self, Arguments& arguments) {
    const std::string_view text = scanned(runtime, self);
    const int64_t most = arguments.has(1) ? integer_argument(arguments[1], "maxsplit") : -1;
    const size_t splits_max = most < 0 ? no_limit : static_cast<size_t>(most);
    if (!is_given(arguments, 0)) {
        take_pieces(runtime, std::min(splits_max, text.size() / 2) + 1);
        return to_list(runtime, split_space(text, splits_max));
    }
    const std::string_view separator = text_argument(arguments[0], "the separator");
    if (separator.empty()) fail("the separator of split is empty");
    take_pieces(runtime, std::min(splits_max, count_occurrences(text, separator)) + 1);
    return to_list(runtime, split(text, separator, splits_max));
}

Value splitlines_method(Runtime& runtime, const Value& self, Arguments&) {
    const std::string_view text = scanned(runtime, self);
    take_pieces(runtime, text.size());
    return to_list(runtime, split_lines(text));
}

template <bool at_start>
Value affix_method(Runtime& runtime, const Value& self, Arguments& arguments) {
    const std::string_view text = scanned(runtime, self);
    auto matches = [&](const Value& affix) {
        const std::string_view piece = text_argument(affix, "what to look for");
        return at_start ? text.starts_with(piece) : text.ends_with(piece);
    };
    const Sequence* choices = arguments[0].sequence();
    if (!choices || choices->kind != Sequence::Kind::tuple) return matches(arguments[0]);
    runtime.step(choices->items.size());
    return std::any_of(choices->items.begin(), choices->items.end(), matches);
}

template <bool at_start>
Value remove_affix(Runtime& runtime, const Value& self, Arguments& arguments) {
    std::string_view text = scanned(runtime, self);
    const std::string_view piece = text_argument(arguments[0], "what to remove");
    if (at_start && text.starts_with(piece)) text.remove_prefix(piece.size());
    if (!at_start && text.ends_with(piece)) text.remove_suffix(piece.size());
    return runtime.text(std::string(text));
}

Value replace_method(Runtime& runtime, const Value& self, Arguments& arguments) {
    return replace_text(runtime, *self.text(), text_argument(arguments[0], "the old text"),
                        text_argument(arguments[1], "the new text"),
                        arguments.has(2) ? integer_argument(arguments[2], "the count") : -1);
}

/// As text.rfind(piece), in the time that find_piece needs.
size_t find_last(Runtime& runtime, std::string_view text, std::string_view piece) {
    runtime.take(text.size() + piece.size());
    const std::string backwards(text.rbegin(), text.rend()), piece_backwards(piece.rbegin(), piece.rend());
    const size_t at = find_piece(backwards, piece_backwards);
    return at == std::string_view::npos ? at : text.size() - at - piece.size();
}

template <bool from_left>
Value find_text(Runtime& runtime, const Value& self, Arguments& arguments) {
    const std::string_view text = scanned(runtime, self);
    const std::string_view piece = text_argument(arguments[0], "what to look for");
    const size_t at = from_left ? find_piece(text, piece) : find_last(runtime, text, piece);
    return at == std::string_view::npos ? int64_t{-1} : static_cast<int64_t>(count_characters(text.substr(0, at)));
}

Value count_text(Runtime& runtime, const Value& self, Arguments& arguments) {
    const std::string_view text = scanned(runtime, self);
    return static_cast<int64_t>(count_occurrences(text, text_argument(arguments[0], "what to count")));
}

Value join_method(Runtime& runtime, const Value& self, Arguments& arguments) {
    if (arguments[0].is<Undefined>()) return runtime.text("");
    TextBuilder out(runtime);
    bool first = true;
    for (const Value& item : items_of(runtime, arguments[0])) {
        if (!std::exchange(first, false)) out.append(*self.text());
        out.append(text_argument(item, "an item to join"));
    }
    return out.finish();
}

Value get_method(Runtime& runtime, const Value& self, Arguments& arguments) {
    if (const Value* found = find_entry(runtime, *self.dict(), arguments[0])) return *found;
    return arguments.has(1) ? arguments[1] : Value(nullptr);
}

template <Sequence::Kind kind>
Value view_method(Runtime& runtime, const Value& self, Arguments&) {
    std::vector<Value> items;
    for (const auto& [key, value] : self.dict()->entries)
        items.push_back(kind == Sequence::Kind::keys     ? key
                        : kind == Sequence::Kind::values ? value
                                                         : runtime.sequence(Sequence::Kind::tuple, {key, value}));
    return runtime.sequence(kind, std::move(items));
}

template <bool wants_index>
Value look_for_item(Runtime& runtime, const Value& self, Arguments& arguments) {
    int64_t count = 0, at = 0;
    for (const Value& item : self.sequence()->items) {
        const bool same = equal(runtime, item, arguments[0]);
        if (same && wants_index) return at;
        count += same ? 1 : 0;
        ++at;
    }
    if (wants_index) fail("the item looked for is not in the list");
    return count;
}

Value cycle_method(Runtime&, const Value& self, Arguments& arguments) {
    return (*self.as<Loop*>())->cycle(arguments.rest);
}

constexpr Builtin text_methods[] = {
    {"strip", "/chars?", strip_method<Side::both>},
    {"lstrip", "/chars?", strip_method<Side::left>},
    {"rstrip", "/chars?", strip_method<Side::right>},
    {"upper", "", map_method<upper>},
    {"lower", "", map_method<lower>},
    {"capitalize", "", map_method<capitalize>},
    {"title", "", map_method<title>},
    {"split", "sep? maxsplit?", split_method},
    {"splitlines", "", splitlines_method},
    {"startswith", "/prefix", affix_method<true>},
    {"endswith", "/suffix", affix_method<false>},
    {"removeprefix", "/prefix", remove_affix<true>},
    {"removesuffix", "/suffix", remove_affix<false>},
    {"replace", "/old new count?", replace_method},
    {"find", "/sub", find_text<true>},
    {"rfind", "/sub", find_text<false>},
    {"count", "/sub", count_text},
    {"join", "/iterable", join_method},
};
constexpr Builtin dict_methods[] = {
    {"get", "/key default?", get_method},
    {"items", "", view_method<Sequence::Kind::items>},
    {"keys", "", view_method<Sequence::Kind::keys>},
    {"values", "", view_method<Sequence::Kind::values>},
};
constexpr Builtin list_methods[] = {
    {"count", "/value", look_for_item<false>},
    {"index", "/value", look_for_item<true>},
};
constexpr Builtin loop_methods[] = {{"cycle", "...", cycle_method}};

// What Python's types have besides: naming one must not quietly give "undefined".
constexpr std::string_view foreign_text =
    " casefold center encode expandtabs format format_map index isalnum isalpha isascii isdecimal isdigit isidentifier "
    "islower"
    " isnumeric isprintable isspace istitle isupper ljust maketrans partition rindex rjust rpartition rsplit swapcase"
    " translate zfill ";
constexpr std::string_view foreign_dict = " clear copy fromkeys pop popitem setdefault update ";
constexpr std::string_view foreign_list =
    " append clear copy extend insert pop remove reverse sort start stop step mapping isdisjoint ";
constexpr std::string_view foreign_number =
    " as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex hex imag is_integer numerator "
    "real to_bytes ";
constexpr std::string_view foreign_loop = " changed ";
constexpr std::string_view foreign_callable = " name arguments catch_kwargs catch_varargs caller explicit_caller ";

std::span<const Builtin> methods_of(const Value& value) {
    if (value.text()) return text_methods;
    if (value.dict()) return dict_methods;
    if (value.sequence() && value.sequence()->kind <= Sequence::Kind::range) return list_methods;
    if (value.is<Loop*>()) return loop_methods;
    return {};
}

}  // namespace

const Builtin* find_method(const Value& value, std::string_view name) {
    const auto table = methods_of(value);
    const auto found = std::find_if(table.begin(), table.end(), [&](const Builtin& row) { return row.name == name; });
    return found == table.end() ? nullptr : &*found;
}

bool is_method_of_some_type(std::string_view name) {
    for (std::span<const Builtin> table :
         {std::span<const Builtin>(text_methods), std::span<const Builtin>(dict_methods),
          std::span<const Builtin>(list_methods), std::span<const Builtin>(loop_methods)})
        for (const Builtin& row : table)
            if (row.name == name) return true;
    return false;
}

bool is_foreign_attribute(const Value& value, std::string_view name) {
    const std::string_view known = value.text()        ? foreign_text
                                   : value.dict()      ? foreign_dict
                                   : value.sequence()  ? foreign_list
                                   : value.is_number() ? foreign_number
                                   : value.is<Loop*>() ? foreign_loop
                                   : value.is<MacroPtr>() || value.is<MethodPtr>() || value.is<const Builtin*>()
                                       ? foreign_callable
                                       : std::string_view();
    // A name may be as long as a text that is computed.
    return name.size() < known.size() && name.find(' ') == std::string_view::npos &&
           known.find(" " + std::string(name) + " ") != std::string_view::npos;
}

}  // namespace rondo::jinja
