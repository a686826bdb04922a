#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace rondo {

/// Members are written in the order they were given.
using OrderedJson = nlohmann::ordered_json;

/// JSON on one line that is valid UTF-8 whatever its strings hold: what is not becomes U+FFFD.
inline std::string json_text(const OrderedJson& value) {
    return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

/// An object that is written member by member: no tree of all of it is held.
class JsonObjectText {
public:
    void add(std::string_view name, const OrderedJson& value) { add_text(name, json_text(value)); }
    /// `value` is JSON already.
    void add_text(std::string_view name, std::string_view value) {
        text_ += text_.empty() ? "{\"" : ",\"";
        (((text_ += name) += "\":") += value);
    }
    std::string take() && { return std::move(text_) + (text_.empty() ? "{}" : "}"); }

private:
    std::string text_;
};

}  // namespace rondo
