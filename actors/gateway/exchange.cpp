#include <algorithm>
#include <cmath>

#include "actors/gateway/browsers.hpp"
#include "actors/gateway/gateway.hpp"

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
    outcome("aborted");
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
        headers.emplace_back("Vary", "Origin");
    }
    return headers;
}

/// 499: somebody cancelled it, most likely the client by leaving.
void Exchange::sent(int status, size_t bytes) {
    record_.status = status;
    record_.bytes = bytes;
    outcome(status < 400 ? "ok" : status == 499 ? "aborted" : status < 500 ? "refused" : "failed");
}

HttpHeaders Exchange::refused(int status, size_t bytes) {
    sent(status, bytes);
    return headers("application/json");
}

void Exchange::send(int status, std::string type, std::string body, HttpHeaders more) {
    sent(status, body.size());
    HttpHeaders all = headers(std::move(type));
    for (auto& header : more) all.push_back(std::move(header));
    if (status == 401) all.emplace_back("WWW-Authenticate", "Bearer");
    reply_->send(status, std::move(all), std::move(body));
}

/// A page that loads nothing from elsewhere, runs no script but its own files, and stands in no frame.
void Exchange::send_page(std::string type, std::string content) {
    sent(200, content.size());
    HttpHeaders all = headers(std::move(type));
    all.emplace_back("Content-Security-Policy",
                     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
                     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    reply_->send(200, std::move(all), std::move(content));
}

void Exchange::send_json(int status, std::string body) {
    send(status, "application/json", std::move(body));
}

void Exchange::send_error(const ApiError& error) {
    HttpHeaders more;
    if (!error.allow.empty()) more.emplace_back("Allow", error.allow);
    if (error.status == 429 || error.status == 503) {
        const double seconds = std::clamp(std::ceil(error.retry_after_s), 1.0, retry_after_s_max);
        more.emplace_back("Retry-After", std::to_string(static_cast<int>(seconds)));
    }
    send(error.status, "application/json", error.body(), std::move(more));
}

ApiError Exchange::failure(const Error& error) {
    ApiError told = api_error(error);
    if (told.message != error.message) record_.error = error.message;
    outcome(error.code == ErrorCode::cancelled ? "aborted" : told.status < 500 ? "refused" : "failed");
    return told;
}

void Exchange::begin_stream() {
    record_.status = 200;
    reply_->begin(200, headers("text/event-stream; charset=utf-8"));
}

bool Exchange::write(std::string piece) {
    record_.bytes += piece.size();
    const bool taken = reply_->write(std::move(piece));
    if (!taken) outcome("aborted");
    return taken;
}

void Exchange::finish_stream() {
    outcome("ok");
    reply_->finish();
}

void Exchange::count(const TurnUsage& usage) {
    record_.prompt_tokens = usage.prompt_tokens;
    record_.completion_tokens = usage.completion_tokens;
}

void Exchange::outcome(const char* how) {
    if (record_.outcome.empty()) record_.outcome = how;
}

}  // namespace rondo
