#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/server_options.hpp"
#include "transport/http_client.hpp"

namespace rondo::cli {

/// A chat's connection to its server. Ctrl-C, while somebody catches it, ends a wait; then the error is `cancelled`.
class ServerConnection {
public:
    static Result<std::unique_ptr<ServerConnection>> open(const ServerOptions& options);

    /// A request below the API's root. Whatever status the answer has, it is a response.
    Result<HttpResponse> send(const std::string& method, const std::string& target, const std::string& body = "");
    /// The same, with the body of a 2xx answer handed on as it comes.
    Result<HttpResponse> stream(const std::string& target, const nlohmann::json& body,
                                const HttpClient::OnPiece& on_piece);
    /// The object that a 2xx answer holds, else an error with the server's words.
    Result<nlohmann::json> object_of(const Result<HttpResponse>& response) const;
    Error refusal(const HttpResponse& response) const;
    /// GET /models. Where it is not below /v1, it is looked for at the URL itself, and later requests go there
    /// too.
    Result<nlohmann::json> models();

    const Url& url() const { return client_.url(); }
    /// The last words of a chat, which must not hold its user up.
    void forget(const std::string& target);

private:
    ServerConnection(Url url, std::shared_ptr<const TlsTrust> trust, const std::string& key, double timeout_s);

    HttpClient client_;
    HttpHeaders headers_;
    std::chrono::milliseconds timeout_;
    std::string root_ = "/v1";
};

/// As JSON. What is no UTF-8 is for the server to refuse.
std::string to_text(const nlohmann::json& body);
/// For a segment of a path or a query.
std::string percent_encoded(const std::string& text);

}  // namespace rondo::cli
