#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/result.hpp"

namespace rondo {

/// What a client may cost before it has been answered; everything a connection holds is bounded by these.
struct HttpLimits {
    size_t header_bytes_max = size_t{16} << 10;     ///< 431 beyond
    size_t body_bytes_max = size_t{8} << 20;        ///< 413 beyond, before reading on
    size_t bodies_bytes_max = size_t{128} << 20;    ///< of all that have not come whole, half of it for an
                                                    ///< address: 503 beyond for large ones
    size_t connections_max = 12'000;                ///< further ones are closed at once; fewer, where the process may
                                                    ///< not open so many files and 512 others
    size_t write_bytes_max = size_t{4} << 20;       ///< of a stream, accepted and not yet sent
    size_t answers_bytes_max = size_t{512} << 20;   ///< of all answers, accepted and not yet sent; beyond, a whole
                                                    ///< one becomes a 503, and a stream is cut
    std::chrono::milliseconds header_time{10'000};  ///< from the first byte of a request to the end of its header
    std::chrono::milliseconds body_time{30'000};
    std::chrono::milliseconds idle_time{75'000};   ///< of a connection between requests
    std::chrono::milliseconds write_time{30'000};  ///< without a byte taken by the client
};

struct HttpRequest {
    std::string method;
    std::string path;                                          ///< percent-decoded but for %2F and %25, no query
    std::string query;                                         ///< as sent
    std::vector<std::pair<std::string, std::string>> headers;  ///< names in lower case
    std::string body;
    std::string peer;  ///< the client's address, for the access log

    /// The value of a header, or "".
    std::string_view header(std::string_view lower_case_name) const;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// The answer to one request. Usable from any thread, until the connection is done; every call after that does nothing.
/// Exactly one of `send` or (`begin`, `write`…, `finish`) answers; dropped unanswered, the client gets a 500.
class HttpReply {
public:
    virtual ~HttpReply() = default;
    /// A whole response. A HEAD request gets the headers alone.
    virtual void send(int status, HttpHeaders headers, std::string body) = 0;
    /// Starts a response of unknown length (chunked; each `write` leaves at once).
    virtual void begin(int status, HttpHeaders headers) = 0;
    /// False: the client is gone, or takes too slowly what was accepted before (then the connection is closed).
    virtual bool write(std::string piece) = 0;
    virtual void finish() = 0;
    /// Called once, on a thread of the server, when the client leaves before the answer is complete (at once if it
    /// already has). It must not block.
    virtual void on_gone(std::function<void()> gone) = 0;
};

/// An HTTP/1.1 server on plain callbacks. `handle` runs on a thread of the server and must not block.
class HttpServer {
public:
    /// Told, on a thread of the server, of each request that is refused before it reaches the handler: as much of it
    /// as was read, the status and the bytes of the answer's body. Returns the answer's headers. It must not block.
    using Refused = std::function<HttpHeaders(HttpRequest, int status, size_t bytes)>;
    /// Asked, on a thread of the server, at the end of a header whose body has not come whole. What it returns is the
    /// JSON of a 401, and no more is read then; nothing lets the body in. It must not block.
    using TurnAway = std::function<std::optional<std::string>(const HttpRequest&)>;
    struct Options {
        std::string host = "127.0.0.1";  ///< an address or a name, all of whose addresses are listened on
        uint16_t port = 0;               ///< 0: any free one
        int threads = 1;
        HttpLimits limits;
        Refused refused = {};
        TurnAway turn_away = {};
    };
    struct Counts {
        size_t connections = 0;  ///< open now
        uint64_t refused = 0;    ///< beyond connections_max
        uint64_t timed_out = 0;
        size_t body_bytes = 0;    ///< of bodies that have not come whole
        size_t answer_bytes = 0;  ///< accepted and not yet sent
    };
    using Handler = std::function<void(HttpRequest, std::shared_ptr<HttpReply>)>;

    /// Listens. Clients wait until `begin`, so whoever is called back finds the server where it belongs.
    static Result<std::unique_ptr<HttpServer>> open(Options options, Handler handle);
    /// Both at once.
    static Result<std::unique_ptr<HttpServer>> start(Options options, Handler handle);
    virtual ~HttpServer() = default;  ///< closes everything that is open
    virtual Status begin() = 0;
    virtual uint16_t port() const = 0;
    virtual Counts counts() const = 0;
    /// Accepts no more connections and closes idle ones; answers under way go on, each with "Connection: close".
    /// `drained` is called when the last connection is gone or `patience` is over (then the rest is closed; a request
    /// that is still on its way gets a 503).
    virtual void drain(std::chrono::milliseconds patience, std::function<void()> drained) = 0;
};

}  // namespace rondo
