#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "actors/api/access_log.hpp"
#include "actors/api/api_error.hpp"
#include "actors/api/api_keys.hpp"
#include "actors/engine.hpp"
#include "actors/gateway/health.hpp"
#include "actors/gateway/text_queue.hpp"
#include "config/settings.hpp"
#include "transport/http_server.hpp"

namespace rondo {

/// Where the lines of the access log go.
struct LogTo {
    std::function<void(const std::string&)> write;  ///< none: nowhere
    bool failures_only = false;                     ///< of the server's own, whose client is told to look here
};

/// One request on its way to its answer: sends it, and writes the line of the access log. Usable from any thread.
class Exchange {
public:
    Exchange(HttpRequest request, std::shared_ptr<HttpReply> reply, LogTo log, std::string cors_origin);
    ~Exchange();

    const HttpRequest& request() const { return request_; }
    HttpReply& reply() { return *reply_; }
    std::string tenant;
    std::string id;  ///< of the request

    void send_json(int status, std::string body);
    void send(int status, std::string type, std::string body, HttpHeaders more = {});
    void send_page(std::string type, std::string content);
    void send_error(const ApiError& error);
    void send_error(const Error& error) { send_error(failure(error)); }
    /// An error as its client may see it; the log gets what that leaves out.
    ApiError failure(const Error& error);
    void begin_stream();
    bool write(std::string piece);
    void finish_stream();
    void count(const TurnUsage& usage);
    /// How it ended, for the log. The first word counts; without one it is told by the status, or by the error, and a
    /// stream that was not finished was aborted.
    void outcome(const char* how);
    /// The transport answers it with an error, with these headers.
    HttpHeaders refused(int status, size_t bytes);

private:
    HttpHeaders headers(std::string type) const;
    void sent(int status, size_t bytes);

    HttpRequest request_;
    std::shared_ptr<HttpReply> reply_;
    LogTo log_;
    std::string cors_origin_;
    std::chrono::steady_clock::time_point arrived_ = std::chrono::steady_clock::now();
    AccessRecord record_;
};

/// The engine over HTTP: OpenAI's API, conversations, health, metrics and the chat page.
class Gateway {
public:
    struct Options {
        ServerSettings server;
        HttpLimits limits;
        LogTo log;
    };
    static Result<std::unique_ptr<Gateway>> start(Engine& engine, Options options);
    ~Gateway();

    uint16_t port() const { return server_->port(); }
    /// Turns under way go on; nothing new is let in. Returns when all is done, or `patience` is over.
    void drain(std::chrono::milliseconds patience);

private:
    Gateway(Engine& engine, Options options);

    void handle(HttpRequest request, std::shared_ptr<HttpReply> reply);
    HttpHeaders refused(HttpRequest request, int status, size_t bytes);
    void route(const std::shared_ptr<Exchange>& exchange);
    bool let_in(Exchange& exchange) const;
    void page(Exchange& exchange, const std::string& file) const;
    void health(Exchange& exchange, bool ready);
    void metrics(Exchange& exchange);
    void models(Exchange& exchange) const;
    void chat(const std::shared_ptr<Exchange>& exchange);
    void completion(const std::shared_ptr<Exchange>& exchange);
    void tokenize(const std::shared_ptr<Exchange>& exchange);
    void detokenize(Exchange& exchange) const;
    void encode(const std::shared_ptr<Exchange>& exchange, std::function<void()> job);
    void sessions(const std::shared_ptr<Exchange>& exchange);
    void session(const std::shared_ptr<Exchange>& exchange, const std::string& id, const std::string& verb);
    std::string new_id(const char* prefix);

    Engine& engine_;
    Options options_;
    ApiKeys keys_;
    Health health_;
    caf::actor lists_;                        // the ListDesk
    const std::shared_ptr<TextQueue> texts_;  // who works on it may be the last to leave
    std::atomic<bool> draining_{false};
    std::atomic<uint64_t> ids_{0};
    int64_t started_s_ = 0;
    std::unique_ptr<HttpServer> server_;  // last: its threads use all of the above
};

}  // namespace rondo
