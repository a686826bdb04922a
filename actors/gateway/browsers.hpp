#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "actors/gateway/bodies/api_error.hpp"
#include "config/settings.hpp"
#include "transport/http_server.hpp"

namespace rondo {

/// What is wrong with a request that a page of somebody else may have made a browser send; nothing for one that is to
/// be answered. Programs send no Origin; only those that call the server by a name it does not know are refused.
std::optional<ApiError> foreign_page(const HttpRequest& request, const ServerSettings& server);

/// Whether only this machine reaches a server that listens there; of a name other than localhost nobody knows.
bool is_loopback(const std::string& host);

/// The header fields a preflight's answer allows: those it asks for, when they are names of fields, else the usual.
std::string allowed_fields(std::string_view asked);

}  // namespace rondo
