#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace rondo {

/// Members are written in the order they were given.
using OrderedJson = nlohmann::ordered_json;

/// JSON on one line that is valid UTF-8 whatever its strings hold: what is not becomes U+FFFD.
inline std::string json_text(const OrderedJson& value) {
    return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace rondo
