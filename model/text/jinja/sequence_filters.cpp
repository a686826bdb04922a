#include <algorithm>

#include "model/text/jinja/builtins.hpp"
#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/text.hpp"

namespace rondo::jinja {

namespace {

Value count(Runtime& runtime, const Value& self, Arguments&) {
    return length(runtime, self);
}

Value or_default(Runtime& runtime, const Value& self, Arguments& arguments) {
    const bool missing = self.is<Undefined>() || (arguments.has(1) && truthy(arguments[1]) && !truthy(self));
    if (!missing) return self;
    return arguments.has(0) ? arguments[0] : runtime.text("");
}

Value first(Runtime& runtime, const Value& self, Arguments&) {
    std::vector<Value> items = items_of(runtime, self);
    return items.empty() ? Value(Undefined{"the first of no items"}) : std::move(items.front());
}

Value last(Runtime& runtime, const Value& self, Arguments&) {
    if (self.sequence() && self.sequence()->kind == Sequence::Kind::lazy)
        fail("a lazy sequence has no last item; use |list");
    std::vector<Value> items = items_of(runtime, self);
    return items.empty() ? Value(Undefined{"the last of no items"}) : std::move(items.back());
}

Value list(Runtime& runtime, const Value& self, Arguments&) {
    return runtime.list(items_of(runtime, self));
}

Value pairs(Runtime& runtime, const Value& self, Arguments&) {
    if (!self.dict() && !self.is<Undefined>()) fail("'items' wants a dict, not " + std::string(self.type_name()));
    std::vector<Value> items;
    if (self.dict())
        for (const auto& [key, value] : self.dict()->entries)
            items.push_back(runtime.sequence(Sequence::Kind::tuple, {key, value}));
    return runtime.lazy(std::move(items));
}

Value reverse(Runtime& runtime, const Value& self, Arguments&) {
    if (self.text()) return slice_of(runtime, self, nullptr, nullptr, int64_t{-1});
    const bool again = self.sequence() && self.sequence()->kind == Sequence::Kind::lazy;
    if (self.is<Undefined>()) fail("an undefined value cannot be reversed");
    std::vector<Value> items = items_of(runtime, self);
    std::reverse(items.begin(), items.end());
    return again ? runtime.list(std::move(items)) : runtime.lazy(std::move(items));
}

Value fold_case(Runtime& runtime, Value value) {
    return value.text() ? runtime.text(lower(*value.text())) : std::move(value);
}

Value unique(Runtime& runtime, const Value& self, Arguments& arguments) {
    const bool exact = arguments.has(0) && truthy(arguments[0]);
    std::vector<Value> seen, kept;
    for (Value& item : items_of(runtime, self)) {
        Value key = arguments.has(1) ? follow_path(runtime, item, arguments[1]) : item;
        if (!exact) key = fold_case(runtime, std::move(key));
        if (!is_hashable(runtime, key)) fail("'unique' cannot tell a " + std::string(key.type_name()) + " apart");
        const bool known =
            std::any_of(seen.begin(), seen.end(), [&](const Value& old) { return equal(runtime, old, key); });
        if (known) continue;
        seen.push_back(std::move(key));
        kept.push_back(std::move(item));
    }
    return runtime.lazy(std::move(kept));
}

/// The keys of one item: one for each attribute of a comma list, or the item itself.
std::vector<Value> sort_keys(Runtime& runtime, const Value& item, const Value& attributes, bool exact) {
    std::vector<Value> keys;
    if (const std::string* names = attributes.text()) {
        runtime.take(names->size() * sizeof(std::string_view));
        for (std::string_view name : split(*names, ",", no_limit))
            keys.push_back(follow_path(runtime, item, runtime.text(std::string(name))));
    } else {
        keys.push_back(attributes.is<Undefined>() ? item : follow_path(runtime, item, attributes));
    }
    if (!exact)
        for (Value& key : keys) key = fold_case(runtime, std::move(key));
    return keys;
}

Value sort(Runtime& runtime, const Value& self, Arguments& arguments) {
    const bool descending = arguments.has(0) && truthy(arguments[0]), exact = arguments.has(1) && truthy(arguments[1]);
    std::vector<std::pair<Value, Value>> rows;
    for (Value& item : items_of(runtime, self)) {
        Value keys = runtime.list(sort_keys(runtime, item, arguments[2], exact));
        rows.emplace_back(std::move(keys), std::move(item));
    }
    std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
        return is_ordered(runtime, descending ? Comparison::greater : Comparison::less, a.first, b.first);
    });
    std::vector<Value> sorted;
    for (auto& [keys, item] : rows) sorted.push_back(std::move(item));
    return runtime.list(std::move(sorted));
}

Value map(Runtime& runtime, const Value& self, Arguments& arguments) {
    std::vector<Value> out;
    if (arguments.rest.empty()) {
        const Value *path = nullptr, *fallback = nullptr;
        for (const auto& [name, value] : arguments.named) {
            if (name != "attribute" && name != "default") fail("'map' takes no argument '" + name + "'");
            (name == "attribute" ? path : fallback) = &value;
        }
        if (!path) fail("'map' needs the name of a filter or an attribute");
        for (Value& item : items_of(runtime, self))
            out.push_back(follow_path(runtime, std::move(item), *path, fallback));
        return runtime.lazy(std::move(out));
    }
    const std::string_view name = text_argument(arguments.rest[0], "the name of a filter");
    const Builtin* filter = find_filter(name);
    if (!filter) fail("the filter given to 'map' is not supported", ErrorCode::unsupported);
    for (const Value& item : items_of(runtime, self)) {
        runtime.step(1 + arguments.rest.size());
        Arguments inner = bind(*filter, {arguments.rest.begin() + 1, arguments.rest.end()}, arguments.named);
        out.push_back(filter->run(runtime, item, inner));
    }
    return runtime.lazy(std::move(out));
}

/// select, reject, selectattr and rejectattr: the items whose test (or truth) is as wanted.
template <bool wanted, bool by_attribute>
Value choose(Runtime& runtime, const Value& self, Arguments& arguments) {
    std::vector<Value> kept;
    if (!truthy(self)) return runtime.lazy(std::move(kept));
    const size_t skipped = by_attribute ? 1 : 0;
    if (arguments.rest.size() < skipped) fail("needs the name of an attribute");
    const Builtin* test = nullptr;
    if (arguments.rest.size() > skipped) {
        test = find_test(text_argument(arguments.rest[skipped], "the name of a test"));
        if (!test) fail("the test given to a filter is not supported", ErrorCode::unsupported);
    }
    for (const Value& item : items_of(runtime, self)) {
        runtime.step(1 + arguments.rest.size());
        Value subject = by_attribute ? follow_path(runtime, item, arguments.rest[0]) : item;
        if (test) {
            const auto begin = arguments.rest.begin() + static_cast<std::ptrdiff_t>(skipped) + 1;
            Arguments inner = bind(*test, {begin, arguments.rest.end()}, arguments.named);
            subject = test->run(runtime, subject, inner);
        }
        if (truthy(subject) == wanted) kept.push_back(item);
    }
    return runtime.lazy(std::move(kept));
}

}  // namespace

std::span<const Builtin> sequence_filters() {
    static constexpr Builtin table[] = {
        {"length", "", count},
        {"count", "", count},
        {"default", "default_value? boolean?", or_default},
        {"d", "default_value? boolean?", or_default},
        {"first", "", first},
        {"last", "", last},
        {"list", "", list},
        {"items", "", pairs},
        {"reverse", "", reverse},
        {"unique", "case_sensitive? attribute?", unique},
        {"sort", "reverse? case_sensitive? attribute?", sort},
        {"map", "...", map},
        {"select", "...", choose<true, false>},
        {"reject", "...", choose<false, false>},
        {"selectattr", "...", choose<true, true>},
        {"rejectattr", "...", choose<false, true>},
    };
    return table;
}

}  // namespace rondo::jinja
