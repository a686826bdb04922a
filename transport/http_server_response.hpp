#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "transport/http_server.hpp"

namespace rondo {

/// How a response says where it ends.
struct HttpFraming {
    std::optional<size_t> content_bytes;
    bool chunked = false;
    bool close = false;  ///< the connection ends after this response
};

/// Status line and headers, to the empty line. The caller's headers that frame are left out, since framing is not his.
/// Control characters become spaces, so that no value can begin a header of its own.
std::string http_response_head(int status, const HttpHeaders& headers, const HttpFraming& framing);

/// One chunk. An empty piece would end the body: it gives an empty string.
std::string http_chunk(std::string piece);
inline constexpr std::string_view http_last_chunk = "0\r\n\r\n";

HttpHeaders http_error_headers();
/// One line of JSON; `message` must need no escapes.
std::string http_error_body(int status, std::string_view message);

/// 1xx, 204 and 304 have no body, whatever their headers say.
bool http_has_body(int status);

}  // namespace rondo
