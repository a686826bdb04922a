#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/result.hpp"
#include "transport/byte_stream.hpp"
#include "transport/http_url.hpp"
#include "transport/tls_stream.hpp"

namespace rondo {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpResponse {
    int status = 0;
    HttpHeaders headers;  ///< names in lower case
    std::string body;

    bool is_success() const { return status >= 200 && status < 300; }
    /// The value of a header, or "".
    std::string_view header(std::string_view lower_case_name) const;
};

/// What a server may cost its client; more is an error.
struct HttpClientLimits {
    size_t header_bytes_max = size_t{64} << 10;
    size_t body_bytes_max = size_t{64} << 20;
};

/// An HTTP/1.1 client of one server, for one request at a time. The connection is kept for the next request; after an
/// error it is closed, and the next request opens another. Any thread may use it, two at once may not.
///
/// No redirect is followed: nothing that is meant for this server, such as a key, is ever sent to another one.
class HttpClient {
public:
    using Deadline = std::chrono::steady_clock::time_point;
    /// Called with each piece of a body as it arrives. While none arrives, it is called with an empty piece now and
    /// then, so that the caller can look around. False closes the connection: the request ends with
    /// ErrorCode::cancelled.
    using OnPiece = std::function<bool(std::string_view)>;

    /// `trust` is for https; null: the system's certificates.
    explicit HttpClient(Url url, HttpClientLimits limits = {}, std::shared_ptr<const TlsTrust> trust = nullptr);
    ~HttpClient();
    HttpClient(HttpClient&&) noexcept;
    HttpClient& operator=(HttpClient&&) noexcept;

    /// Any answer is a response, whatever its status; an error means that none came whole. `target` is a path on the
    /// server, without the path of the URL. A host name is looked up without regard for the deadline.
    Result<HttpResponse> request(const std::string& method, const std::string& target, const HttpHeaders& headers,
                                 const std::string& body, Deadline deadline);
    /// The same, with the body of a 2xx answer handed to `on_piece` instead; another body is in the response as usual,
    /// for it says what was wrong.
    Result<HttpResponse> stream(const std::string& method, const std::string& target, const HttpHeaders& headers,
                                const std::string& body, Deadline deadline, const OnPiece& on_piece);

    const Url& url() const { return url_; }

private:
    struct Connection;
    class Exchange;

    Result<HttpResponse> perform(const std::string& method, const std::string& target, const HttpHeaders& headers,
                                 const std::string& body, Deadline deadline, const OnPiece* on_piece);
    Result<std::unique_ptr<Connection>> connect(const Patience& patience);
    Error at_server(const Error& error) const;

    Url url_;
    HttpClientLimits limits_;
    std::shared_ptr<const TlsTrust> trust_;
    std::unique_ptr<Connection> connection_;  ///< null while none is open
};

}  // namespace rondo
