#include "model/text/jinja/builtins.hpp"

#include <algorithm>
#include <optional>

#include "model/text/jinja/operators.hpp"
#include "model/text/jinja/text.hpp"

namespace rondo::jinja {

namespace {

struct Parameter {
    std::string_view name;
    bool optional;
};

struct Signature {
    std::vector<Parameter> parameters;
    bool positional_only = false;
    bool open_ended = false;
};

Signature signature_of(std::string_view text) {
    Signature signature;
    if (text.starts_with('/')) {
        signature.positional_only = true;
        text.remove_prefix(1);
    }
    for (std::string_view word : split_space(text, no_limit)) {
        if (word == "...")
            signature.open_ended = true;
        else if (word.ends_with('?'))
            signature.parameters.push_back({word.substr(0, word.size() - 1), true});
        else
            signature.parameters.push_back({word, false});
    }
    return signature;
}

size_t index_of(const Signature& signature, std::string_view name) {
    const auto found = std::find_if(signature.parameters.begin(), signature.parameters.end(),
                                    [&](const Parameter& parameter) { return parameter.name == name; });
    return static_cast<size_t>(found - signature.parameters.begin());
}

const Builtin* find(std::span<const Builtin> table, std::string_view name) {
    const auto found = std::find_if(table.begin(), table.end(), [&](const Builtin& row) { return row.name == name; });
    return found == table.end() ? nullptr : &*found;
}

}  // namespace

const Builtin* find_filter(std::string_view name) {
    for (auto table : {text_filters(), sequence_filters(), number_filters()})
        if (const Builtin* found = find(table, name)) return found;
    return nullptr;
}

const Builtin* find_test(std::string_view name) {
    return find(tests(), name);
}
const Builtin* find_function(std::string_view name) {
    return find(functions(), name);
}

void check_arguments(const Builtin& builtin, size_t positional, const std::vector<std::string_view>& names) {
    const Signature signature = signature_of(builtin.parameters);
    const std::string who = "'" + std::string(builtin.name) + "'";
    const size_t count = signature.parameters.size();
    if (positional > count && !signature.open_ended)
        fail(who + " takes no more than " + std::to_string(count) + " arguments here", ErrorCode::unsupported);
    for (std::string_view name : names) {
        const size_t at = index_of(signature, name);
        if ((at == count || signature.positional_only) && !signature.open_ended)
            fail(who + " takes no argument '" + std::string(name) + "' here", ErrorCode::unsupported);
        if (at < std::min(positional, count)) fail(who + " is given '" + std::string(name) + "' twice");
    }
    for (size_t i = positional; i < count; ++i)
        if (const Parameter& parameter = signature.parameters[i];
            !parameter.optional && std::find(names.begin(), names.end(), parameter.name) == names.end())
            fail(who + " needs an argument '" + std::string(parameter.name) + "'");
}

Arguments bind(const Builtin& builtin, std::vector<Value> positional,
               std::vector<std::pair<std::string, Value>> named) {
    std::vector<std::string_view> names;
    for (const auto& [name, value] : named) names.push_back(name);
    check_arguments(builtin, positional.size(), names);
    const Signature signature = signature_of(builtin.parameters);
    const size_t count = signature.parameters.size();
    Arguments arguments;
    arguments.values.resize(count);
    arguments.given.resize(count);
    for (size_t i = 0; i < positional.size(); ++i) {
        if (i < count) {
            arguments.values[i] = std::move(positional[i]);
            arguments.given[i] = true;
        } else {
            arguments.rest.push_back(std::move(positional[i]));
        }
    }
    for (auto& [name, value] : named) {
        if (const size_t at = index_of(signature, name); at < count) {
            arguments.values[at] = std::move(value);
            arguments.given[at] = true;
        } else {
            arguments.named.emplace_back(std::move(name), std::move(value));
        }
    }
    return arguments;
}

std::string_view text_argument(const Value& value, std::string_view what) {
    if (const std::string* text = value.text()) return *text;
    fail(std::string(what) + " must be a string, not " + std::string(value.type_name()));
}

int64_t integer_argument(const Value& value, std::string_view what) {
    if (auto number = value.integer()) return *number;
    fail(std::string(what) + " must be an integer, not " + std::string(value.type_name()));
}

Value follow_path(Runtime& runtime, Value item, const Value& path, const Value* fallback) {
    auto step_to = [&](const Value& key) {
        item = item_of(runtime, item, key);
        if (item.is<Undefined>() && fallback && !fallback->is<std::nullptr_t>()) item = *fallback;
    };
    if (path.is<std::nullptr_t>()) return item;
    if (!path.text()) {
        step_to(path);
        return item;
    }
    runtime.take(path.text()->size() * sizeof(std::string_view));
    for (std::string_view part : split(*path.text(), ".", no_limit)) {
        const bool is_index = !part.empty() && part.size() < 18 &&
                              std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
        step_to(is_index ? Value(int64_t{std::stoll(std::string(part))}) : runtime.text(std::string(part)));
    }
    return item;
}

}  // namespace rondo::jinja
