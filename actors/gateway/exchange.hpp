#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "actors/gateway/bodies/access_log.hpp"
#include "actors/gateway/bodies/api_error.hpp"
#include "actors/turn_events.hpp"
#include "transport/http_server.hpp"

namespace rondo {

/// Where the lines of the access log go.
struct LogTo {
    std::function<void(const std::string&)> write;  ///< none: nowhere
    bool failures_only = false;                     ///< of the server's own, whose client is told to look here
};

/// One request on its way to its answer: sends it, and writes the line of the access log. Usable from any thread; the
/// first to complete the answer does, and what others say after that is dropped.
class Exchange : public std::enable_shared_from_this<Exchange> {
public:
    Exchange(HttpRequest request, std::shared_ptr<HttpReply> reply, LogTo log, std::string cors_origin);
    ~Exchange();

    const HttpRequest& request() const { return request_; }
    /// The body, which is kept no longer than it is needed. `body_bytes` still says how long it was.
    std::string take_body() { return std::move(request_.body); }
    size_t body_bytes() const { return body_bytes_; }
    std::string tenant;
    std::string id;         ///< of the request
    bool is_apart = false;  ///< whether a thread for large requests works on it

    void send_json(int status, std::string body);
    void send(int status, std::string type, std::string body, HttpHeaders more = {});
    void send_page(std::string type, std::string content);
    void send_error(const ApiError& error);
    void send_error(const Error& error) { send_error(failure(error)); }
    /// An error as its client may see it; the log gets what that leaves out.
    ApiError failure(const Error& error);
    void begin_stream();
    bool write(std::string piece);
    /// The end of a stream, with its last piece.
    void finish_stream(std::string last = {});
    void count(const TurnUsage& usage);
    /// How it ended, for the log. The first word counts; without one it is told by the status, or by the error, and a
    /// stream that was not finished was aborted.
    void outcome(const char* how);
    /// The transport answers it with an error, with these headers.
    HttpHeaders refused(int status, size_t bytes);

    /// From now on `nobody_waits` is called when the client leaves.
    void watch_client();
    /// Ends the answer with this error, unless it is complete. Whoever works on it is told by `nobody_waits`.
    void cut(const ApiError& why);
    /// The client has left, or the answer was cut: who works on it stops. The second call does nothing.
    void nobody_waits();
    /// `gone` is called once when that happens, on any thread, and at once if it has. It must not block.
    void on_gone(std::function<void()> gone);
    std::stop_token stop_token() const { return stop_.get_token(); }

private:
    HttpHeaders headers(std::string type) const;
    // With the lock held.
    void note(const char* how);
    void sent(int status, size_t bytes);
    void reply_with(int status, HttpHeaders headers, std::string body);
    void reply_with(const ApiError& error);
    bool write_piece(std::string piece);

    HttpRequest request_;
    const size_t body_bytes_ = request_.body.size();
    const std::shared_ptr<HttpReply> reply_;
    const LogTo log_;
    const std::string cors_origin_;
    const std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();

    std::mutex mutex_;
    AccessRecord record_;
    bool streams_ = false;
    bool is_complete_ = false;
    std::function<void()> gone_;
    std::stop_source stop_;
};

}  // namespace rondo
