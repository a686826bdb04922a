#include "actors/gateway/bodies/api_error.hpp"

#include <algorithm>
#include <array>

#include "actors/gateway/bodies/json_text.hpp"
#include "config/in_quotes.hpp"

namespace rondo {

namespace {

constexpr const char* bad_request = "invalid_request_error";
constexpr const char* server_error = "server_error";

struct Row {
    ErrorCode code;
    int status;
    const char* type;
    const char* name;
    const char* told;  ///< instead of the error's own text; nullptr: that text
};

// A passed deadline is 504, not 408: the client did send its request in time, and the answer is what came too late.
// 499 is what proxies log for a client that left; a client that still listens was cancelled by somebody else.
constexpr std::array rows{
    Row{ErrorCode::invalid_argument, 400, bad_request, "invalid_value", nullptr},
    Row{ErrorCode::not_found, 404, bad_request, "not_found", nullptr},
    Row{ErrorCode::corrupt, 500, server_error, "corrupt", "stored data was damaged; the request can be sent again"},
    Row{ErrorCode::unsupported, 400, bad_request, "unsupported", nullptr},
    Row{ErrorCode::out_of_range, 400, bad_request, "out_of_range", nullptr},
    Row{ErrorCode::out_of_memory, 503, server_error, "out_of_memory", nullptr},
    Row{ErrorCode::overloaded, 429, "rate_limit_error", "overloaded", nullptr},
    Row{ErrorCode::io, 500, server_error, "io", "reading or writing failed on the server; its log says where"},
    Row{ErrorCode::device, 500, server_error, "device", "a device of the server failed; its log says which"},
    Row{ErrorCode::cancelled, 499, server_error, "cancelled", nullptr},
    Row{ErrorCode::timeout, 504, server_error, "timeout", nullptr},
    Row{ErrorCode::context_full, 400, bad_request, "context_length_exceeded", nullptr},
    Row{ErrorCode::internal, 500, server_error, "internal", "the server failed; its log says why"},
};

const Row& row_of(ErrorCode code) {
    const auto found = std::ranges::find(rows, code, &Row::code);
    return found == rows.end() ? rows.back() : *found;
}

OrderedJson or_null(const std::string& text) {
    return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
}

}  // namespace

std::string ApiError::body() const {
    OrderedJson error;
    error["message"] = message;
    error["type"] = type;
    error["param"] = or_null(param);
    error["code"] = or_null(code);
    return json_text({{"error", std::move(error)}});
}

ApiError api_error(const Error& error) {
    const Row& row = row_of(error.code);
    ApiError told{row.status, row.type, row.name, "", row.told == nullptr ? error.message : row.told};
    told.retry_after_s = error.retry_after_s;
    return told;
}

ApiError bad_field(std::string param, std::string code, std::string message) {
    return {400, bad_request, std::move(code), std::move(param), std::move(message)};
}

ApiError wrong_api_key() {
    return {401, "authentication_error", "invalid_api_key", "",
            "no valid API key; a header must be 'Authorization: Bearer KEY'"};
}

ApiError foreign_host() {
    return {
        403, bad_request, "foreign_host", "",
        "the Host header names another server; server.allowed_hosts must list that name, or the request must go to an "
        "address or localhost (a server with API keys takes any name)"};
}

ApiError foreign_origin() {
    return {403, bad_request, "foreign_origin", "",
            "pages of another origin may change nothing here; server.cors_origin must be theirs"};
}

ApiError unknown_path() {
    return {404, bad_request, "unknown_path", "",
            "nothing is served under this path; it must be /v1/chat/completions, /v1/responses, /v1/completions, "
            "/v1/models, "
            "/v1/sessions, /v1/store, /tokenize, /detokenize, /health, /ready, /metrics or / (the chat page)"};
}

ApiError wrong_method(std::string_view allowed) {
    ApiError error{405, bad_request, "wrong_method", "",
                   "the method must be " + std::string(allowed) + " for this path"};
    error.allow = allowed;
    return error;
}

ApiError not_serving(std::string code, std::string why) {
    return {503, server_error, std::move(code), "", std::move(why)};
}

ApiError shutting_down() {
    return not_serving("shutting_down", "the server is shutting down");
}

ApiError unknown_model(std::string_view name, std::span<const std::string> served) {
    std::string names;
    for (const std::string& one : served) names += (names.empty() ? "" : " or ") + in_quotes(one);
    return {404, bad_request, "model_not_found", "model",
            "model " + in_quotes(name) + " is not served, must be " + names};
}

}  // namespace rondo
