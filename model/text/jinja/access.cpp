#include <algorithm>

#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/eval.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/text.hpp"

namespace rondo::jinja {

namespace {

/// What a list of one character strings costs, a character.
constexpr size_t character_bytes = sizeof(Value) + sizeof(std::string) + 16 + sizeof(std::string_view);

/// Python's rule for an index: negative ones count from the end; nothing when it is out of range.
std::optional<size_t> position(int64_t index, size_t size) {
    const auto count = static_cast<int64_t>(size);
    if (index < -count || index >= count) return std::nullopt;
    return static_cast<size_t>(index < 0 ? index + count : index);
}

/// Python's slice.indices: the positions a slice visits are start, start + step … short of stop.
struct Indices {
    int64_t start, stop, step;
};

Indices indices_of(size_t size, const Value& start, const Value& stop, const Value& step) {
    auto bound = [](const Value& value) -> std::optional<int64_t> {
        if (value.is<std::nullptr_t>()) return std::nullopt;
        if (auto number = value.integer()) return number;
        fail("a bound of a slice must be an integer, not " + std::string(value.type_name()));
    };
    const int64_t by = bound(step).value_or(1);
    if (by == 0) fail("the step of a slice must not be zero");
    const auto count = static_cast<int64_t>(size);
    const int64_t lowest = by > 0 ? 0 : -1, highest = by > 0 ? count : count - 1;
    auto clip = [&](std::optional<int64_t> index, int64_t missing) {
        if (!index) return missing;
        return std::clamp(*index < 0 ? *index + count : *index, lowest, highest);
    };
    // A step as long as the whole visits one element at most, so clipping it keeps the loop below from overflowing.
    return {clip(bound(start), by > 0 ? lowest : highest), clip(bound(stop), by > 0 ? highest : lowest),
            std::clamp(by, -count - 1, count + 1)};
}

template <class Visit>
void visit(const Indices& indices, Visit at) {
    for (int64_t i = indices.start; indices.step > 0 ? i < indices.stop : i > indices.stop; i += indices.step)
        at(static_cast<size_t>(i));
}

Value character_at(Runtime& runtime, std::string_view text, int64_t index) {
    runtime.scan(8 * text.size());
    const auto at = position(index, count_characters(text));
    if (!at) return Undefined{"an item that is not there"};
    size_t byte = 0, size = 0;
    for (size_t i = 0; i <= *at; ++i, byte += size) decode(text, byte, size);
    return runtime.text(std::string(text.substr(byte - size, size)));
}

Value slice_text(Runtime& runtime, const std::string& text, const Value& start, const Value& stop, const Value& step) {
    runtime.scan(8 * text.size());
    TextBuilder out(runtime);
    if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
        const Indices indices = indices_of(text.size(), start, stop, step);
        if (indices.step == 1 && indices.start < indices.stop)
            out.append(std::string_view(text).substr(static_cast<size_t>(indices.start),
                                                     static_cast<size_t>(indices.stop - indices.start)));
        else
            visit(indices, [&](size_t i) { out.append(std::string_view(text).substr(i, 1)); });
    } else {
        runtime.take(count_characters(text) * sizeof(std::string_view));
        const auto all = characters(text);
        visit(indices_of(all.size(), start, stop, step), [&](size_t i) { out.append(all[i]); });
    }
    return out.finish();
}

/// An attribute Python itself gives the type: a method, an attribute of `loop` or of a namespace.
std::optional<Value> own_attribute(const Value& value, std::string_view name) {
    if (const Loop* const* loop = value.as<Loop*>())
        if (auto found = (*const_cast<Loop*>(*loop)).attribute(name)) return found;
    if (const NamespacePtr* space = value.as<NamespacePtr>()) {
        const auto found = (*space)->attributes.find(name);
        return found == (*space)->attributes.end() ? std::nullopt : std::optional<Value>(found->second);
    }
    if (const Builtin* method = find_method(value, name))
        return MethodPtr(std::make_shared<const Method>(Method{method, value}));
    if (is_foreign_attribute(value, name))
        fail("attribute '" + std::string(name) + "' of a " + std::string(value.type_name()) + " is not supported",
             ErrorCode::unsupported);
    return std::nullopt;
}

std::optional<Value> own_item(Runtime& runtime, const Value& value, const Value& index) {
    if (const Dict* dict = value.dict()) {
        const Value* found = find_entry(runtime, *dict, index);
        return found ? std::optional<Value>(*found) : std::nullopt;
    }
    const auto number = index.integer();
    if (!number) return std::nullopt;
    if (const std::string* text = value.text()) return character_at(runtime, *text, *number);
    const Sequence* sequence = value.sequence();
    if (!sequence || sequence->kind > Sequence::Kind::range) return std::nullopt;
    const auto at = position(*number, sequence->items.size());
    return at ? std::optional<Value>(sequence->items[*at]) : std::nullopt;
}

}  // namespace

const Value* find_entry(Runtime& runtime, const Dict& dict, const Value& key) {
    runtime.step(dict.entries.size() / 16);
    if (!is_hashable(runtime, key)) return nullptr;
    const std::string* text = key.text();
    for (const auto& [candidate, value] : dict.entries) {
        const std::string* other = candidate.text();
        if ((text == nullptr) != (other == nullptr)) continue;
        if (text == nullptr) {
            if (equal(runtime, candidate, key)) return &value;
        } else if (text->size() == other->size()) {
            runtime.scan(text->size());
            if (*text == *other) return &value;
        }
    }
    return nullptr;
}

int64_t length(Runtime& runtime, const Value& value) {
    if (value.is<Undefined>()) return 0;
    if (const std::string* text = value.text()) {
        runtime.scan(8 * text->size());
        return static_cast<int64_t>(count_characters(*text));
    }
    if (const Dict* dict = value.dict()) return static_cast<int64_t>(dict->entries.size());
    const Sequence* sequence = value.sequence();
    if (!sequence || sequence->kind == Sequence::Kind::lazy)
        fail("a " + std::string(value.type_name()) + " has no length");
    return static_cast<int64_t>(sequence->items.size());
}

std::vector<Value> items_of(Runtime& runtime, const Value& value) {
    std::vector<Value> out;
    if (const Sequence* sequence = value.sequence()) {
        if (sequence->kind == Sequence::Kind::lazy && std::exchange(sequence->used, true))
            fail("a lazy sequence is used a second time; |list would keep it", ErrorCode::unsupported);
        runtime.take(sequence->items.size() * sizeof(Value));
        runtime.step(sequence->items.size() / 8);
        return sequence->items;
    }
    if (const Dict* dict = value.dict()) {
        runtime.take(dict->entries.size() * sizeof(Value));
        runtime.step(dict->entries.size() / 8);
        for (const auto& [key, item] : dict->entries) out.push_back(key);
    } else if (const std::string* text = value.text()) {
        runtime.scan(8 * text->size());
        runtime.take(count_characters(*text) * character_bytes);
        for (std::string_view character : characters(*text)) out.push_back(runtime.text(std::string(character)));
    } else if (!value.is<Undefined>()) {
        fail("a " + std::string(value.type_name()) + " cannot be iterated over");
    }
    return out;
}

Value attribute_of(Runtime& runtime, const Value& value, std::string_view name) {
    require_defined(value);
    if (auto found = own_attribute(value, name)) return *found;
    if (const Dict* dict = value.dict()) {
        runtime.step(dict->entries.size() / 16);
        for (const auto& [key, item] : dict->entries)
            if (key.text() && *key.text() == name) return item;
    }
    return Undefined{name};
}

Value item_of(Runtime& runtime, const Value& value, const Value& index) {
    require_defined(value);
    if (auto found = own_item(runtime, value, index)) return *found;
    if (index.text())
        if (auto found = own_attribute(value, *index.text())) return *found;
    return Undefined{"an item that is not there"};
}

Value slice_of(Runtime& runtime, const Value& value, const Value& start, const Value& stop, const Value& step) {
    require_defined(value);
    if (const std::string* text = value.text()) return slice_text(runtime, *text, start, stop, step);
    const Sequence* sequence = value.sequence();
    if (!sequence || sequence->kind > Sequence::Kind::range)
        fail("a " + std::string(value.type_name()) + " cannot be sliced");
    runtime.take(sequence->items.size() * sizeof(Value));
    std::vector<Value> items;
    visit(indices_of(sequence->items.size(), start, stop, step),
          [&](size_t i) { items.push_back(sequence->items[i]); });
    return runtime.sequence(sequence->kind, std::move(items));
}

}  // namespace rondo::jinja
