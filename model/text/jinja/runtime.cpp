#include "model/text/jinja/runtime.hpp"

#include <map>
#include <string_view>

#include "model/text/jinja/operators.hpp"

namespace rondo::jinja {

void fail(std::string message, ErrorCode code, int line) {
    throw Fault{code, std::move(message), line};
}

std::optional<int64_t> Value::integer() const {
    if (const bool* flag = as<bool>()) return *flag;
    if (const int64_t* number = as<int64_t>()) return *number;
    return std::nullopt;
}

std::optional<double> Value::number() const {
    if (const double* number = as<double>()) return *number;
    if (auto number = integer()) return static_cast<double>(*number);
    return std::nullopt;
}

std::string_view Value::type_name() const {
    static constexpr std::string_view names[] = {"undefined", "none",     "bool", "int",       "float",
                                                 "string",    "list",     "dict", "namespace", "method",
                                                 "macro",     "function", "loop"};
    static_assert(std::size(names) == std::variant_size_v<Data>);
    if (const Sequence* items = sequence()) {
        static constexpr std::string_view kinds[] = {"list",        "tuple",      "range",        "dict_keys",
                                                     "dict_values", "dict_items", "lazy sequence"};
        return kinds[static_cast<size_t>(items->kind)];
    }
    return names[data_.index()];
}

void Runtime::step(size_t count) {
    steps_ += count;
    if (stop_.stop_requested()) fail("was stopped", ErrorCode::cancelled);
    if (steps_ > limits::template_steps_max)
        fail("needs more than " + std::to_string(limits::template_steps_max) + " steps", ErrorCode::out_of_range);
}

void Runtime::take(size_t bytes) {
    if (bytes > limits::template_work_bytes_max || (bytes_ += bytes) > limits::template_work_bytes_max)
        fail("makes more than " + std::to_string(limits::template_work_bytes_max >> 20) + " MiB of text and lists",
             ErrorCode::out_of_range);
}

Value Runtime::text(std::string text) {
    take(sizeof(std::string) + text.size());
    return std::make_shared<const std::string>(std::move(text));
}

size_t Runtime::storable(const Value& value) {
    if (value.is<NamespacePtr>() || value.is<MethodPtr>() || value.is<MacroPtr>() || value.is<const Builtin*>() ||
        value.is<Loop*>())
        fail("a " + std::string(value.type_name()) + " cannot be stored in a list, a dict or a namespace",
             ErrorCode::unsupported);
    if (const Sequence* items = value.sequence()) return items->depth;
    if (const Dict* dict = value.dict()) return dict->depth;
    return 0;
}

namespace {

size_t nest(size_t depth, const Value& item) {
    depth = std::max(depth, Runtime::storable(item) + 1);
    if (depth > limits::template_value_depth_max)
        fail("nests lists deeper than " + std::to_string(limits::template_value_depth_max), ErrorCode::out_of_range);
    return depth;
}

}  // namespace

Value Runtime::sequence(Sequence::Kind kind, std::vector<Value> items) {
    take(sizeof(Sequence) + items.size() * sizeof(Value));
    step(items.size() / 8);
    size_t depth = 1;
    for (const Value& item : items) depth = nest(depth, item);
    return SequencePtr(std::make_shared<Sequence>(Sequence{kind, depth, std::move(items), false}));
}

/// Of equal keys the first stays, with the value of the last.
Value Runtime::dict(std::vector<std::pair<Value, Value>> entries) {
    constexpr size_t few = 16;  // are looked through
    take(sizeof(Dict) + entries.size() * 2 * sizeof(Value));
    step(entries.size() / 8);
    Dict dict{1, {}};
    // Of texts, where there are many keys. Keys come from users, who could choose them all with the same hash.
    std::map<std::string_view, size_t> places;
    for (auto& [key, value] : entries) {
        dict.depth = nest(nest(dict.depth, value), key);
        Value* old = nullptr;
        if (const std::string* const text = key.text(); text != nullptr && entries.size() > few) {
            const auto [place, is_new] = places.try_emplace(*text, dict.entries.size());
            if (!is_new) old = &dict.entries[place->second].second;
        } else {
            old = const_cast<Value*>(find_entry(*this, dict, key));
        }
        if (old != nullptr)
            *old = std::move(value);
        else
            dict.entries.emplace_back(std::move(key), std::move(value));
    }
    return DictPtr(std::make_shared<Dict>(std::move(dict)));
}

void TextBuilder::append(std::string_view piece) {
    runtime_.take(piece.size());
    text_.append(piece);
}

void TextBuilder::append(size_t count, std::string_view piece) {
    if (piece.empty()) return;
    if (count > limits::template_work_bytes_max) runtime_.take(count);
    runtime_.take(count * piece.size());
    for (; count > 0; --count) text_.append(piece);
}

}  // namespace rondo::jinja
