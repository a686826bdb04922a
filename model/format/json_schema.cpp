#include "model/format/json_schema.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "config/in_quotes.hpp"
#include "config/limits.hpp"
#include "model/format/json_containers.hpp"
#include "model/format/number_range.hpp"
#include "model/format/pattern.hpp"
#include "model/format/schema_fields.hpp"

namespace rondo {

namespace {

using Json = nlohmann::ordered_json;
using Node = ByteGrammar::Node;
using Rule = ByteGrammar::Rule;

/// What says more than a note, and is not kept: who wrote it counts on it.
constexpr std::array<std::string_view, 18> refused_words = {
    "if",          "then",          "else",          "dependentSchemas", "dependentRequired",     "dependencies",
    "contains",    "minContains",   "maxContains",   "propertyNames",    "patternProperties",     "multipleOf",
    "$dynamicRef", "$recursiveRef", "minProperties", "maxProperties",    "unevaluatedProperties", "unevaluatedItems"};

/// What says something of values, and so may not stand beside a choice or a reference, which say all of it.
constexpr std::array<std::string_view, 21> saying_words = {"type",
                                                           "enum",
                                                           "const",
                                                           "anyOf",
                                                           "oneOf",
                                                           "allOf",
                                                           "properties",
                                                           "required",
                                                           "additionalProperties",
                                                           "items",
                                                           "minItems",
                                                           "maxItems",
                                                           "minimum",
                                                           "maximum",
                                                           "pattern",
                                                           "prefixItems",
                                                           "minLength",
                                                           "maxLength",
                                                           "uniqueItems",
                                                           "exclusiveMinimum",
                                                           "exclusiveMaximum"};

/// "a~1b" of a JSON pointer is "a/b".
std::string pointed_name(std::string_view text) {
    std::string name;
    for (size_t i = 0; i < text.size(); ++i) {
        const bool is_mark = text[i] == '~' && i + 1 < text.size() && (text[i + 1] == '0' || text[i + 1] == '1');
        name += !is_mark ? text[i] : text[i + 1] == '0' ? '~' : '/';
        i += is_mark ? 1 : 0;
    }
    return name;
}

bool says_nothing(const Json& schema) {
    const auto has = [&](std::string_view word) { return schema.contains(word); };
    return schema == true || (schema.is_object() && !has("$ref") && !has("not") &&
                              std::ranges::none_of(saying_words, has) && std::ranges::none_of(refused_words, has));
}

class SchemaRules {
public:
    SchemaRules(const Json& root, const std::string& where, ByteGrammar& grammar, JsonParts& parts)
        : root_(root), where_(where), grammar_(grammar), parts_(parts) {}

    Result<Rule> make() {
        const Rule rule = rule_of(root_, where_);
        while (!waiting_.empty()) {
            const Waiting next = std::move(waiting_.front());
            waiting_.pop_front();
            RONDO_ASSIGN(const Node begin, value(*next.schema, next.path));
            grammar_.define(next.rule, begin);
            if (grammar_.is_full()) return schema_too_large(where_);
        }
        return rule;
    }

private:
    struct Waiting {
        const Json* schema;
        std::string path;
        Rule rule;
    };

    /// One rule for each schema of the text, made later: a schema may refer to itself.
    Rule rule_of(const Json& schema, const std::string& path) {
        if (says_nothing(schema)) return parts_.value();
        const auto [found, is_new] = rules_.try_emplace(&schema, 0);
        if (is_new) {
            found->second = grammar_.rule();
            waiting_.push_back({&schema, path, found->second});
        }
        return found->second;
    }

    Result<Node> value(const Json& schema, const std::string& path) {
        if (schema == false) return ByteGrammar::never;
        if (!schema.is_object()) return wrong_schema(path, "", "an object, true or false");
        for (const std::string_view word : refused_words)
            if (schema.contains(word)) return wrong_schema(path, word, "left out; it is not supported");
        if (schema.contains("not")) {
            // What is not anything is nothing: so clients write a member that may be absent.
            if (says_nothing(schema.at("not"))) return ByteGrammar::never;
            return wrong_schema(path, "not", "left out; it is not supported");
        }
        for (const std::string_view word : {"$ref", "anyOf", "oneOf", "allOf"})
            if (schema.contains(word)) return alone(schema, word, path);
        if (schema.contains("const") || schema.contains("enum")) return constants(schema, path);
        return by_types(schema, path);
    }

    Node call(Rule rule) { return grammar_.call(rule, ByteGrammar::end); }

    /// Beside a word that says all of the values stand no others that say something.
    static Status check_beside(const Json& schema, std::string_view word, std::initializer_list<std::string_view> taken,
                               const std::string& path) {
        for (const std::string_view other : saying_words) {
            if (schema.contains(other) && std::ranges::find(taken, other) == taken.end())
                return wrong_schema(path, other, "left out beside " + std::string(word));
        }
        return Status::ok();
    }

    Result<Node> alone(const Json& schema, std::string_view word, const std::string& path) {
        RONDO_TRY(check_beside(schema, word, {word}, path));
        if (word == "$ref") return reference(schema, path);
        const Json& list = schema.at(word);
        const std::string list_path = path + "." + std::string(word);
        if (!list.is_array() || list.empty() || list.size() > limits::format_choices_max)
            return wrong_schema(path, word,
                                "a list of 1 to " + std::to_string(limits::format_choices_max) + " schemas");
        if (word == "allOf" && list.size() > 1) return wrong_schema(path, word, "a list of one schema");
        Node all = ByteGrammar::never;
        for (size_t i = list.size(); i-- > 0;)
            all = grammar_.either(call(rule_of(list[i], list_path + "[" + std::to_string(i) + "]")), all);
        return all;
    }

    Result<Node> reference(const Json& schema, const std::string& path) {
        const Json& reference = schema.at("$ref");
        const std::string right = "\"#\" or \"#/…\", the place of a schema in this one";
        if (!reference.is_string()) return wrong_schema(path, "$ref", right);
        std::string_view rest = reference.get_ref<const std::string&>();
        if (rest.empty() || rest[0] != '#') return wrong_schema(path, "$ref", right);
        const Json* found = &root_;
        for (rest.remove_prefix(1); found != nullptr && !rest.empty();) {
            if (rest[0] != '/') return wrong_schema(path, "$ref", right);
            const size_t end = std::min(rest.find('/', 1), rest.size());
            found = member_of(*found, pointed_name(rest.substr(1, end - 1)));
            rest.remove_prefix(end);
        }
        if (found == nullptr) return wrong_schema(path, "$ref", right);
        return call(rule_of(*found, path));
    }

    static const Json* member_of(const Json& value, const std::string& name) {
        if (value.is_object()) {
            const auto found = value.find(name);
            return found == value.end() ? nullptr : &*found;
        }
        if (!value.is_array() || name.empty() || name.size() > 6 || name.find_first_not_of("0123456789") != name.npos)
            return nullptr;
        const size_t at = std::stoul(name);
        return at < value.size() ? &value[at] : nullptr;
    }

    Result<Node> constants(const Json& schema, const std::string& path) {
        RONDO_TRY(check_beside(schema, schema.contains("enum") ? "enum" : "const", {"type", "enum", "const"}, path));
        RONDO_ASSIGN(const SchemaTypes types, types_of(schema, path));
        const std::string right = "a list of 1 to " + std::to_string(limits::format_choices_max) + " values";
        Json values = Json::array();
        if (schema.contains("enum")) {
            values = schema.at("enum");
            if (!values.is_array() || values.empty() || values.size() > limits::format_choices_max)
                return wrong_schema(path, "enum", right);
        }
        if (schema.contains("const")) {
            const bool listed = values.empty() || std::ranges::find(values, schema.at("const")) != values.end();
            if (!listed) return wrong_schema(path, "const", "one of enum");
            values = Json::array({schema.at("const")});
        }
        std::vector<std::string> texts;
        for (const Json& each : values)
            if (types.has(each)) texts.push_back(json_written(each, parts_.spelling()));
        if (texts.empty()) return wrong_schema(path, schema.contains("enum") ? "enum" : "const", "of the type it says");
        return grammar_.texts(std::move(texts), ByteGrammar::end);
    }

    Result<Node> by_types(const Json& schema, const std::string& path) {
        RONDO_ASSIGN(const SchemaTypes types, types_of(schema, path));
        Node all = ByteGrammar::never;
        if (types.null) all = grammar_.either(grammar_.text("null", ByteGrammar::end), all);
        if (types.boolean) all = grammar_.either(grammar_.texts({"true", "false"}, ByteGrammar::end), all);
        if (types.number || types.integer) {
            RONDO_ASSIGN(const Node node, number(schema, types.number, path));
            all = grammar_.either(node, all);
        }
        if (types.string) {
            RONDO_ASSIGN(const Node node, string(schema, path));
            all = grammar_.either(node, all);
        }
        if (types.array) {
            RONDO_ASSIGN(const Node node, array(schema, path));
            all = grammar_.either(node, all);
        }
        if (types.object) {
            RONDO_ASSIGN(const Node node, object(schema, path));
            all = grammar_.either(node, all);
        }
        return all;
    }

    Result<Node> number(const Json& schema, bool fractions, const std::string& path) {
        RONDO_ASSIGN(const NumberBounds bounds, bounds_of(schema, path));
        if (bounds.none()) return call(fractions ? parts_.number() : parts_.integer());
        const Node node = number_between(grammar_, bounds, fractions, ByteGrammar::end);
        if (node == ByteGrammar::never && !grammar_.is_full())
            return wrong_schema(path, "minimum", "no more than the maximum");
        return node;
    }

    Result<Node> string(const Json& schema, const std::string& path) {
        RONDO_ASSIGN(const SchemaCount count, count_of(schema, "minLength", "maxLength", path));
        const bool is_counted = schema.contains("minLength") || schema.contains("maxLength");
        if (schema.contains("pattern")) {
            if (is_counted) return wrong_schema(path, "pattern", "left out beside minLength and maxLength");
            if (!schema.at("pattern").is_string()) return wrong_schema(path, "pattern", "a regular expression");
            return string_of_pattern(schema.at("pattern").get_ref<const std::string&>(), path, grammar_, parts_);
        }
        const bool has_format = schema.contains("format") && schema.at("format").is_string();
        const std::string_view pattern =
            has_format ? pattern_of_format(schema.at("format").get_ref<const std::string&>()) : std::string_view();
        if (!pattern.empty() && !is_counted) return string_of_pattern(pattern, path, grammar_, parts_);
        return parts_.string(count.least, count.most, ByteGrammar::end);
    }

    Result<Node> array(const Json& schema, const std::string& path) {
        RONDO_ASSIGN(const SchemaCount count, count_of(schema, "minItems", "maxItems", path));
        if (schema.contains("uniqueItems") && schema.at("uniqueItems") != false)
            return wrong_schema(path, "uniqueItems", "left out; it is not supported");
        // Before 2020 `items` was the list, and `additionalItems` what follows it.
        const bool is_older = schema.contains("items") && schema.at("items").is_array();
        const std::string_view list_word = is_older ? "items" : "prefixItems";
        const std::string_view rest_word = is_older ? "additionalItems" : "items";
        std::vector<Rule> first;
        if (schema.contains(list_word)) {
            const Json& list = schema.at(list_word);
            if (!list.is_array() || list.size() > limits::format_choices_max)
                return wrong_schema(path, list_word, "a list of schemas");
            for (size_t i = 0; i < list.size(); ++i)
                first.push_back(rule_of(list[i], path + "." + std::string(list_word) + "[" + std::to_string(i) + "]"));
        }
        // Without a word on the rest nothing follows what is listed; where nothing is listed, any values do.
        int64_t most = count.most;
        Rule rest = parts_.value();
        if (schema.contains(rest_word)) {
            rest = rule_of(schema.at(rest_word), path + "." + std::string(rest_word));
            if (schema.at(rest_word) == false) most = bounded(most, std::ssize(first));
        } else if (!first.empty()) {
            most = bounded(most, std::ssize(first));
        }
        if (most >= 0 && count.least > most) return wrong_schema(path, "minItems", "no more than there are items");
        return list_of(grammar_, parts_, {std::move(first), rest, count.least, most});
    }

    static int64_t bounded(int64_t most, int64_t count) { return most < 0 ? count : std::min(most, count); }

    Result<Node> object(const Json& schema, const std::string& path) {
        // Without `additionalProperties` other members would be valid. Whoever lists some wants those.
        const bool lists_members = schema.contains("properties") && !schema.at("properties").empty();
        std::optional<Rule> others;
        if (!schema.contains("additionalProperties")) {
            if (!lists_members) others = parts_.value();
        } else if (schema.at("additionalProperties") != false) {
            others = rule_of(schema.at("additionalProperties"), path + ".additionalProperties");
        }
        RONDO_ASSIGN(const std::vector<JsonMember> members, members_of(schema, others, path));
        return object_of(grammar_, parts_, members, others);
    }

    Result<std::vector<JsonMember>> members_of(const Json& schema, std::optional<Rule> others,
                                               const std::string& path) {
        std::vector<JsonMember> members;
        if (schema.contains("properties")) {
            const Json& properties = schema.at("properties");
            if (!properties.is_object() || properties.size() > limits::format_choices_max)
                return wrong_schema(path, "properties", "an object of schemas");
            for (const auto& [name, property] : properties.items()) {
                if (name.size() > limits::name_bytes_max)
                    return wrong_schema(path, "properties",
                                        "names of up to " + std::to_string(limits::name_bytes_max) + " bytes");
                members.push_back({name, rule_of(property, path + ".properties." + name), false});
            }
        }
        if (!schema.contains("required")) return members;
        const Json& required = schema.at("required");
        const auto is_name = [](const Json& name) {
            return name.is_string() && name.get_ref<const std::string&>().size() <= limits::name_bytes_max;
        };
        if (!required.is_array() || required.size() > limits::format_choices_max ||
            !std::ranges::all_of(required, is_name))
            return wrong_schema(path, "required", "a list of members' names");
        const bool may_have_others = !schema.contains("additionalProperties") || others.has_value();
        for (const Json& name : required) {
            const auto found = std::ranges::find(members, name.get_ref<const std::string&>(), &JsonMember::name);
            if (found != members.end()) {
                found->required = true;
            } else if (may_have_others) {
                members.push_back({name.get<std::string>(), others.value_or(parts_.value()), true});
            } else {
                return wrong_schema(path, "required",
                                    "of properties; " + in_quotes(name.get<std::string>()) + " is none");
            }
        }
        return members;
    }

    const Json& root_;
    const std::string& where_;
    ByteGrammar& grammar_;
    JsonParts& parts_;
    std::map<const Json*, Rule> rules_;
    std::deque<Waiting> waiting_;
};

}  // namespace

Result<Rule> rule_of_schema(const Json& schema, const std::string& where, ByteGrammar& grammar, JsonParts& parts) {
    return SchemaRules(schema, where, grammar, parts).make();
}

}  // namespace rondo
