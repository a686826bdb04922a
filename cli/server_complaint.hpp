#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "transport/http_client.hpp"

namespace rondo::cli {

/// The text of an "error" that a server put into its JSON, as an object or as a text; "" where there is none.
std::string error_message(const nlohmann::json& error);
/// What a server says of a request that it did not answer with a 2xx, in one line: its status, then its own words as
/// far as they can be found, or where it redirects to (which no client here follows).
std::string complaint(const HttpResponse& response);

}  // namespace rondo::cli
