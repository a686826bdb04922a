#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/result.hpp"

namespace rondo {

/// What a client is told when a request fails: an HTTP status, and the fields of OpenAI's error object.
struct ApiError {
    int status = 500;
    std::string type;        ///< "invalid_request_error", "authentication_error", "rate_limit_error" or "server_error"
    std::string code;        ///< for programs: "invalid_value", "overloaded", …
    std::string param;       ///< the field of the body at fault; "" when none is
    std::string message;     ///< one line
    std::string allow = {};  ///< the methods that a 405's Allow header lists
    double retry_after_s = 0.0;  ///< of a 429: when asking again may help; 0: nobody knows

    /// {"error":{"message","type","param","code"}}; `param` and `code` are null when empty.
    std::string body() const;
};

/// An engine's error as its client may see it. What went wrong inside (`io`, `device`, `corrupt`, `internal`) is told
/// in general words, because its text may name paths of this host: log the error itself.
ApiError api_error(const Error& error);

/// A 400 about a field of the body.
ApiError bad_field(std::string param, std::string code, std::string message);
/// The same answer for a missing, a malformed and an unknown key.
ApiError wrong_api_key();
ApiError foreign_host();
ApiError foreign_origin();
ApiError unknown_path();
ApiError wrong_method(std::string_view allowed);
/// A 503.
ApiError not_serving(std::string code, std::string why);
ApiError shutting_down();
ApiError unknown_model(std::string_view name, std::span<const std::string> served);

/// A value or what to tell the client.
template <class T>
using ApiResult = Result<T, ApiError>;

}  // namespace rondo
