#include "actors/gateway/bodies/response_format.hpp"

#include <string>

#include "config/limits.hpp"
#include "model/format/answer_format.hpp"

namespace rondo {

namespace {

using Json = nlohmann::json;

constexpr const char* field = "response_format";
constexpr std::string_view right_schema = "{\"name\": …, \"schema\": …}";

void read_schema(BodyFields& format, std::string_view body, AnswerRequest& into) {
    const Json* named = format.find("json_schema");
    if (named == nullptr) return format.missing("json_schema", right_schema);
    auto within = format.within("json_schema", *named, right_schema);
    if (!within) return;
    // Members stand in the order of the text, which the tree of the body does not keep.
    const auto ordered = nlohmann::ordered_json::parse(body).at(field).at("json_schema");
    read_named_schema(*within, ordered, std::string(field) + ".json_schema", into);
}

}  // namespace

void read_named_schema(BodyFields& named, const nlohmann::ordered_json& ordered, const std::string& where,
                       AnswerRequest& into) {
    std::string unused;
    named.word("name", unused);
    named.text("description", limits::schema_bytes_max, unused);
    bool kept_anyway = true;
    named.flag("strict", kept_anyway);
    if (named.find("schema") == nullptr) return named.missing("schema", "a JSON Schema");
    named.refuse_others();
    if (named.has_problem()) return;
    auto made = AnswerFormat::json_schema(ordered.at("schema").dump(), where + ".schema");
    if (!made) return named.refuse("schema", "invalid_value", made.error().message);
    into.options.format = *std::move(made);
}

void read_response_format(BodyFields& fields, std::string_view body, AnswerRequest& into) {
    const Json* format = fields.find(field);
    if (format == nullptr || fields.has_problem()) return;
    auto within = fields.within(field, *format, "{\"type\": …}");
    if (!within) return;
    std::string type;
    within->text("type", limits::name_bytes_max, type);
    if (type == "json_object") into.options.format = AnswerFormat::json_object();
    if (type == "json_schema") {
        read_schema(*within, body, into);
    } else {
        within->refuse_unless("json_schema", nullptr);
        if (type.empty()) within->missing("type", "text, json_object or json_schema");
        if (type != "text" && type != "json_object")
            within->wrong("type", "unknown", "text, json_object or json_schema");
    }
    within->refuse_others();
    if (into.options.format != nullptr && into.options.tokens_min > 0) {
        fields.wrong("min_tokens", std::to_string(into.options.tokens_min) + " with a response_format",
                     "0, for the format tells where the answer ends");
    }
}

}  // namespace rondo
