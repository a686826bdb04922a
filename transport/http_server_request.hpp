#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "transport/http_chunks.hpp"
#include "transport/http_server.hpp"

namespace rondo {

/// Why a request is not read on. The message never repeats what the client sent.
struct HttpRefusal {
    int status = 400;
    std::string message;
    std::string body = {};  ///< in place of one that is made of the message
};

/// Makes one request of the bytes of a connection, however they are cut. Knows no socket and no clock. Beast parses the
/// header, once it is complete. Folded lines, a second Content-Length and codings beside chunked are refused too: Beast
/// would let them pass, and another server might read them differently.
class HttpRequestReader {
public:
    enum class State { header, body, done, refused };

    explicit HttpRequestReader(const HttpLimits& limits) : limits_(limits) {}

    /// Returns how many of `bytes` were used; the others must come again, with what follows them.
    size_t take(std::string_view bytes);
    State state() const { return state_; }
    const HttpRefusal& refusal() const { return refusal_; }  ///< when refused

    bool is_http11() const { return http11_; }  ///< from the end of the header on, as the next two
    bool keeps_alive() const { return keeps_alive_; }
    bool awaits_continue() const { return expects_continue_ && request_.body.empty(); }
    size_t body_bytes() const { return request_.body.size(); }  ///< that have come
    /// Nothing has come but line ends.
    bool is_between_requests() const { return state_ == State::header && is_between_; }
    const HttpRequest& so_far() const { return request_; }
    HttpRequest release() { return std::move(request_); }  ///< when done

private:
    size_t take_header(std::string_view bytes);
    size_t take_body(std::string_view bytes);
    /// The length of the header, or 0 while its end has not come (or when it was refused).
    size_t find_end(std::string_view bytes);
    void parse_header(std::string_view header);
    /// False, after a refusal.
    bool check_fields();
    bool set_target(std::string_view target);
    void start_body(std::optional<uint64_t> content_bytes);
    bool refuse(int status, std::string message);

    const HttpLimits& limits_;
    State state_ = State::header;
    HttpRequest request_;
    HttpRefusal refusal_;
    size_t scanned_bytes_ = 0;  ///< of the header
    bool is_between_ = false;
    bool http11_ = false;
    bool keeps_alive_ = false;
    bool expects_continue_ = false;
    size_t body_bytes_left_ = 0;
    std::optional<HttpChunks> chunks_;
};

}  // namespace rondo
