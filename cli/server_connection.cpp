#include "cli/server_connection.hpp"

#include <algorithm>
#include <cstdio>

#include "cli/interrupts.hpp"
#include "cli/server_complaint.hpp"

namespace rondo::cli {

using nlohmann::json;
using std::chrono::steady_clock;

namespace {

// For every request but one for an answer: lists, conversations.
constexpr std::chrono::milliseconds short_time_max{60'000};
// A server that does not answer the last words keeps the conversation until it forgets it.
constexpr std::chrono::seconds last_words_time_max{2};

}  // namespace

ServerConnection::ServerConnection(Url url, std::shared_ptr<const TlsTrust> trust, const std::string& key,
                                   double timeout_s)
    : client_(std::move(url), {}, std::move(trust)), timeout_(static_cast<int64_t>(timeout_s * 1e3)) {
    headers_ = {{"Content-Type", "application/json"}, {"Accept", "application/json, text/event-stream"}};
    if (!key.empty()) headers_.emplace_back("Authorization", "Bearer " + key);
}

Result<std::unique_ptr<ServerConnection>> ServerConnection::open(const ServerOptions& options) {
    RONDO_ASSIGN(Url url, Url::parse(options.url));
    RONDO_ASSIGN(const std::string key, options.key());
    RONDO_ASSIGN(auto trust, options.trust());
    if (!key.empty() && !url.tls && !url.is_loopback()) {
        std::fprintf(stderr, "rondo: the key goes to %s unencrypted; only https:// keeps it from others on the way\n",
                     url.origin().c_str());
    }
    return std::unique_ptr<ServerConnection>(
        new ServerConnection(url.without_v1(), std::move(trust), key, options.timeout_s));
}

Result<HttpResponse> ServerConnection::send(const std::string& method, const std::string& target,
                                            const std::string& body) {
    std::string text;
    auto response =
        client_.stream(method, root_ + target, headers_, body, steady_clock::now() + std::min(timeout_, short_time_max),
                       [&](std::string_view piece) {
                           text += piece;
                           return !CatchInterrupts::interrupted();
                       });
    if (response && response->is_success()) response->body = std::move(text);
    return response;
}

Result<HttpResponse> ServerConnection::stream(const std::string& target, const json& body,
                                              const HttpClient::OnPiece& on_piece) {
    return client_.stream("POST", root_ + target, headers_, to_text(body), steady_clock::now() + timeout_, on_piece);
}

Error ServerConnection::refusal(const HttpResponse& response) const {
    const ErrorCode code = response.status == 429   ? ErrorCode::overloaded
                           : response.status == 404 ? ErrorCode::not_found
                                                    : ErrorCode::invalid_argument;
    return make_error(code, client_.url().origin() + ": " + complaint(response));
}

Result<json> ServerConnection::object_of(const Result<HttpResponse>& response) const {
    if (!response) return response.error();
    if (!response->is_success()) return refusal(*response);
    json value = json::parse(response->body, nullptr, false);
    if (value.is_object()) return value;
    return make_error(ErrorCode::corrupt, client_.url().origin() + ": the answer is no JSON object");
}

Result<json> ServerConnection::models() {
    auto response = send("GET", "/models");
    if (response && response->status == 404) {
        root_ = "";
        auto second = send("GET", "/models");
        if (second && second->is_success()) return object_of(second);
        root_ = "/v1";
    }
    return object_of(response);
}

void ServerConnection::forget(const std::string& target) {
    static_cast<void>(
        client_.request("DELETE", root_ + target, headers_, "", steady_clock::now() + last_words_time_max));
}

std::string to_text(const json& body) {
    return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string percent_encoded(const std::string& text) {
    constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    std::string encoded;
    for (const char c : text) {
        if (plain.find(c) != std::string_view::npos) {
            encoded += c;
            continue;
        }
        constexpr char digits[] = "0123456789ABCDEF";
        const auto byte = static_cast<uint8_t>(c);
        encoded += {'%', digits[byte >> 4], digits[byte & 15]};
    }
    return encoded;
}

}  // namespace rondo::cli
