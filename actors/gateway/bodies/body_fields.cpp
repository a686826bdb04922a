#include "actors/gateway/bodies/body_fields.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "actors/gateway/bodies/conversation_id.hpp"
#include "config/in_quotes.hpp"
#include "config/limits.hpp"
#include "model/files/strict_json.hpp"

namespace rondo {

namespace {

using Json = nlohmann::json;

/// The shortest text that reads back as the same number, so that a value just beyond its range does not look inside.
std::string shown(double value) {
    char text[32];
    const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
    return {text, end};
}

std::string shown_number(const Json& value) {
    if (value.is_number_unsigned()) return std::to_string(value.get<uint64_t>());
    if (value.is_number_integer()) return std::to_string(value.get<int64_t>());
    return shown(value.get<double>());
}

std::string_view type_of(const Json& value) {
    switch (value.type()) {
        case Json::value_t::null:
            return "null";
        case Json::value_t::boolean:
            return "a truth value";
        case Json::value_t::string:
            return "a string";
        case Json::value_t::array:
            return "a list";
        case Json::value_t::object:
            return "an object";
        default:
            return "a number";
    }
}

/// The number, where it is a whole one of 64 bits.
std::optional<int64_t> whole_of(const Json& value) {
    constexpr double exact_max = 9007199254740992.0;  // up to here a double is the number that was written
    if (value.is_number_float()) {
        const auto real = value.get<double>();
        if (!(std::abs(real) <= exact_max) || real != std::trunc(real)) return std::nullopt;
        return static_cast<int64_t>(real);
    }
    if (!value.is_number_integer()) return std::nullopt;
    if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) return std::nullopt;
    return value.get<int64_t>();
}

std::string between(const std::string& low, const std::string& high) {
    return low + " to " + high;
}

}  // namespace

ApiResult<Json> parse_body(std::string_view body) {
    constexpr JsonBounds bounds{.bytes_max = limits::prompt_bytes_max,
                                .depth_max = limits::json_depth_max,
                                .values_max = limits::request_values_max};
    auto json = parse_json_object(body, "request body", bounds);
    if (json) return std::move(json).value();
    if (json.error().code == ErrorCode::internal) return api_error(json.error());
    return bad_field("", "invalid_json", json.error().message);
}

std::string item_name(std::string_view list, size_t index) {
    return std::string(list) + "[" + std::to_string(index) + "]";
}

const Json* BodyFields::find(std::string_view name) {
    known_.push_back(name);
    const auto found = object_->find(name);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
}

void BodyFields::wrong(std::string_view name, std::string_view is, std::string_view right, std::string_view code) {
    refuse(name, std::string(code),
           path_ + std::string(name) + " is " + std::string(is) + ", must be " + std::string(right));
}

void BodyFields::refuse(std::string_view name, std::string code, std::string message) {
    if (!has_problem()) *problem_ = bad_field(path_ + std::string(name), std::move(code), std::move(message));
}

void BodyFields::wrong_type(std::string_view name, const Json& value, std::string_view right) {
    wrong(name, type_of(value), right, "invalid_type");
}

void BodyFields::missing(std::string_view name, std::string_view right) {
    wrong(name, "missing", right, "missing_required_parameter");
}

std::optional<double> BodyFields::checked_number(std::string_view name, const Json& value, const NumberRange& range) {
    const std::string right = (range.low_included ? "" : "above ") + between(shown(range.low), shown(range.high));
    if (!value.is_number()) {
        wrong_type(name, value, right);
        return std::nullopt;
    }
    const auto number = value.get<double>();
    if (range.holds(number)) return number;
    wrong(name, shown_number(value), right);
    return std::nullopt;
}

std::optional<int64_t> BodyFields::checked_whole(std::string_view name, const Json& value, int64_t low, int64_t high) {
    const auto number = whole_of(value);
    if (number && *number >= low && *number <= high) return number;
    const std::string right = between(std::to_string(low), std::to_string(high));
    if (!value.is_number()) {
        wrong_type(name, value, right);
        return std::nullopt;
    }
    const auto real = value.get<double>();
    const bool within = real >= static_cast<double>(low) && real <= static_cast<double>(high);
    const bool fraction = !number && within && value.is_number_float();
    wrong(name, shown_number(value), fraction ? "a whole number from " + right : right);
    return std::nullopt;
}

void BodyFields::number(std::string_view name, const NumberRange& range, double& into) {
    const Json* value = find(name);
    if (value != nullptr) into = checked_number(name, *value, range).value_or(into);
}

void BodyFields::number(std::string_view name, const NumberRange& range, float& into) {
    double wide = into;
    number(name, range, wide);
    into = static_cast<float>(wide);
    // What lies just above a bound must not become the bound.
    if (!range.low_included && static_cast<double>(into) <= range.low)
        into = std::nextafter(static_cast<float>(range.low), std::numeric_limits<float>::infinity());
}

void BodyFields::whole(std::string_view name, int64_t low, int64_t high, int64_t& into) {
    const Json* value = find(name);
    if (value != nullptr) into = checked_whole(name, *value, low, high).value_or(into);
}

void BodyFields::whole(std::string_view name, int64_t low, int64_t high, int& into) {
    int64_t wide = into;
    whole(name, low, high, wide);
    into = static_cast<int>(wide);
}

void BodyFields::flag(std::string_view name, bool& into) {
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_boolean()) return wrong_type(name, *value, "true or false");
    into = value->get<bool>();
}

void BodyFields::text(std::string_view name, size_t bytes_max, std::string& into) {
    const Json* value = find(name);
    if (value == nullptr) return;
    const std::string right = "a string of up to " + std::to_string(bytes_max) + " bytes";
    if (!value->is_string()) return wrong_type(name, *value, right);
    const auto& text = value->get_ref<const std::string&>();
    if (text.size() > bytes_max) return wrong(name, std::to_string(text.size()) + " bytes", right);
    into = text;
}

void BodyFields::word(std::string_view name, std::string& into) {
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    constexpr std::string_view right = "1 to 64 letters, digits, '_' and '-'";
    constexpr size_t bytes_max = 64;
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_string()) return wrong_type(name, *value, right);
    const auto& text = value->get_ref<const std::string&>();
    if (text.empty() || text.size() > bytes_max || text.find_first_not_of(allowed) != std::string::npos) {
        return wrong(name, "not a name", right);
    }
    into = text;
}

void BodyFields::conversation_id(std::string_view name, std::string& into) {
    static const std::string right =
        "1 to " + std::to_string(limits::conversation_id_bytes_max) + " bytes of printable UTF-8";
    const Json* value = find(name);
    if (value == nullptr) return;
    if (!value->is_string()) return wrong_type(name, *value, right);
    const auto& text = value->get_ref<const std::string&>();
    if (!is_conversation_id(text)) return wrong(name, "not an id", right);
    into = text;
}

void BodyFields::wholes(std::string_view name, int64_t low, int64_t high, std::vector<int64_t>& into) {
    const Json* list = array(name, limits::request_values_max);
    if (list != nullptr) checked_wholes(name, *list, low, high, into);
}

void BodyFields::checked_wholes(std::string_view name, const Json& list, int64_t low, int64_t high,
                                std::vector<int64_t>& into) {
    into.reserve(list.size());
    for (const Json& item : list) {
        auto value = whole_of(item);
        // Names are made for errors only: a prompt may have many ids.
        if (!value || *value < low || *value > high)
            value = checked_whole(item_name(name, into.size()), item, low, high);
        if (!value) return;
        into.push_back(*value);
    }
}

void BodyFields::token_ids(std::string_view name, int64_t vocabulary, std::vector<int32_t>& into) {
    if (const Json* list = array(name, limits::request_values_max)) into = checked_token_ids(name, *list, vocabulary);
}

std::vector<int32_t> BodyFields::checked_token_ids(std::string_view name, const Json& list, int64_t vocabulary) {
    std::vector<int64_t> ids;
    checked_wholes(name, list, 0, vocabulary - 1, ids);
    return {ids.begin(), ids.end()};
}

const Json* BodyFields::array(std::string_view name, size_t items_max) {
    const Json* value = find(name);
    if (value == nullptr) return nullptr;
    const std::string right = "a list of up to " + std::to_string(items_max) + " items";
    if (value->is_array() && value->size() <= items_max) return value;
    if (value->is_array()) {
        wrong(name, "a list of " + std::to_string(value->size()), right);
    } else {
        wrong_type(name, *value, right);
    }
    return nullptr;
}

std::optional<BodyFields> BodyFields::within(std::string_view name, const Json& value, std::string_view right) {
    if (value.is_object()) return BodyFields(value, path_ + std::string(name) + ".", *problem_);
    wrong_type(name, value, right);
    return std::nullopt;
}

void BodyFields::refuse_unless(std::string_view name, const Json& harmless) {
    const Json* value = find(name);
    if (value == nullptr || *value == harmless) return;
    refuse(name, "unsupported_parameter", path_ + std::string(name) + " is not supported and must be left out");
}

void BodyFields::refuse_others() {
    for (const auto& [name, value] : object_->items()) {
        if (has_problem()) return;
        // Clients write null for each field that they know and do not use.
        if (value.is_null() || std::ranges::find(known_, std::string_view(name)) != known_.end()) continue;
        const std::string quoted = in_quotes(path_ + name);
        *problem_ = bad_field(quoted.substr(1, quoted.size() - 2), "unknown_parameter",
                              quoted + " is not a field of this request and must be left out");
    }
}

}  // namespace rondo
