#include "actors/gateway/exchange.hpp"

#include <algorithm>
#include <cmath>

#include "actors/gateway/bodies/event_stream.hpp"
#include "actors/gateway/browsers.hpp"

namespace rondo {

namespace {

constexpr double retry_after_s_max = 3600.0;

}  // namespace

Exchange::Exchange(HttpRequest request, std::shared_ptr<HttpReply> reply, LogTo log, std::string cors_origin)
    : request_(std::move(request)),
      reply_(std::move(reply)),
      log_(std::move(log)),
      cors_origin_(std::move(cors_origin)) {
    record_.time = std::chrono::system_clock::now();
}

Exchange::~Exchange() {
    if (record_.status == 0) sent(500, 0);  // dropped: the transport answers it
    note("aborted");
    if (!log_.write || (log_.failures_only && record_.error.empty())) return;
    record_.peer = request_.peer;
    record_.method = request_.method;
    record_.path = request_.path;
    record_.tenant = tenant;
    record_.request_id = id;
    record_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - arrived_).count();
    log_.write(access_log_line(record_));
}

HttpHeaders Exchange::headers(std::string type) const {
    HttpHeaders headers{{"Content-Type", std::move(type)},
                        {"Cache-Control", "no-store"},
                        {"X-Content-Type-Options", "nosniff"},
                        {"X-Request-Id", id}};
    if (!cors_origin_.empty()) {
        headers.emplace_back("Access-Control-Allow-Origin", cors_origin_);
        headers.emplace_back("Access-Control-Allow-Headers",
                             allowed_fields(request_.header("access-control-request-headers")));
        headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE, OPTIONS");
        headers.emplace_back("Access-Control-Expose-Headers", "Retry-After, X-Request-Id");
        headers.emplace_back("Vary", "Origin");
    }
    return headers;
}

/// 499: somebody cancelled it, most likely the client by leaving.
void Exchange::sent(int status, size_t bytes) {
    record_.status = status;
    record_.bytes = bytes;
    note(status < 400 ? "ok" : status == 499 ? "aborted" : status < 500 ? "refused" : "failed");
}

HttpHeaders Exchange::refused(int status, size_t bytes) {
    const std::lock_guard lock(mutex_);
    sent(status, bytes);
    HttpHeaders all = headers("application/json");
    if (status == 503) all.emplace_back("Retry-After", "1");
    if (status == 401) all.emplace_back("WWW-Authenticate", "Bearer");
    return all;
}

void Exchange::reply_with(int status, HttpHeaders headers, std::string body) {
    if (std::exchange(is_complete_, true)) return;
    sent(status, body.size());
    reply_->send(status, std::move(headers), std::move(body));
}

void Exchange::reply_with(const ApiError& error) {
    HttpHeaders all = headers("application/json");
    if (!error.allow.empty()) all.emplace_back("Allow", error.allow);
    if (error.status == 429 || error.status == 503) {
        const double seconds = std::clamp(std::ceil(error.retry_after_s), 1.0, retry_after_s_max);
        all.emplace_back("Retry-After", std::to_string(static_cast<int>(seconds)));
    }
    if (error.status == 401) all.emplace_back("WWW-Authenticate", "Bearer");
    reply_with(error.status, std::move(all), error.body());
}

void Exchange::send(int status, std::string type, std::string body, HttpHeaders more) {
    HttpHeaders all = headers(std::move(type));
    for (auto& header : more) all.push_back(std::move(header));
    const std::lock_guard lock(mutex_);
    reply_with(status, std::move(all), std::move(body));
}

/// A page that loads nothing from elsewhere, runs no script but its own files, and stands in no frame.
void Exchange::send_page(std::string type, std::string content) {
    send(200, std::move(type), std::move(content),
         {{"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
           "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}});
}

void Exchange::send_json(int status, std::string body) {
    send(status, "application/json", std::move(body));
}

void Exchange::send_error(const ApiError& error) {
    const std::lock_guard lock(mutex_);
    reply_with(error);
}

ApiError Exchange::failure(const Error& error) {
    ApiError told = api_error(error);
    const std::lock_guard lock(mutex_);
    if (told.message != error.message) record_.error = error.message;
    note(error.code == ErrorCode::cancelled ? "aborted" : told.status < 500 ? "refused" : "failed");
    return told;
}

void Exchange::begin_stream() {
    const std::lock_guard lock(mutex_);
    if (is_complete_ || std::exchange(streams_, true)) return;
    record_.status = 200;
    reply_->begin(200, headers("text/event-stream; charset=utf-8"));
}

bool Exchange::write_piece(std::string piece) {
    record_.bytes += piece.size();
    const bool taken = reply_->write(std::move(piece));
    if (!taken) note("aborted");
    return taken;
}

bool Exchange::write(std::string piece) {
    const std::lock_guard lock(mutex_);
    return !is_complete_ && write_piece(std::move(piece));
}

void Exchange::finish_stream(std::string last) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_complete_, true)) return;
    if (!last.empty()) write_piece(std::move(last));
    note("ok");
    reply_->finish();
}

void Exchange::count(const TurnUsage& usage) {
    const std::lock_guard lock(mutex_);
    record_.prompt_tokens = usage.prompt_tokens;
    record_.completion_tokens = usage.completion_tokens;
}

void Exchange::outcome(const char* how) {
    const std::lock_guard lock(mutex_);
    note(how);
}

void Exchange::note(const char* how) {
    if (record_.outcome.empty()) record_.outcome = how;
}

void Exchange::watch_client() {
    reply_->on_gone([weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->nobody_waits();
    });
}

void Exchange::cut(const ApiError& why) {
    const std::lock_guard lock(mutex_);
    if (is_complete_) return;
    note("failed");
    if (!streams_) return reply_with(why);
    is_complete_ = true;
    write_piece(stream_error(why));
    reply_->finish();
}

void Exchange::nobody_waits() {
    if (!stop_.request_stop()) return;
    std::function<void()> gone;
    {
        const std::lock_guard lock(mutex_);
        gone.swap(gone_);
    }
    if (gone) gone();
}

void Exchange::on_gone(std::function<void()> gone) {
    {
        const std::lock_guard lock(mutex_);
        if (!stop_.stop_requested()) return gone_.swap(gone);
    }
    gone();
}

}  // namespace rondo
