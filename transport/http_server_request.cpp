#include "transport/http_server_request.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <limits>
#include <utility>

#include "config/hex_value.hpp"

namespace rondo {

namespace {

namespace http = boost::beast::http;

bool is_control(char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

/// ASCII only, whatever the locale.
char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string lower(std::string_view text) {
    std::string result(text);
    std::ranges::transform(result, result.begin(), [](char c) { return lower(c); });
    return result;
}

std::string_view view(boost::string_view text) {
    return {text.data(), text.size()};
}

/// An encoded slash stays "%2F", so that it never divides segments, and an encoded percent sign "%25", so that nothing
/// else looks like one. Empty for a bad escape or a control character.
std::string decode_path(std::string_view path) {
    std::string decoded;
    decoded.reserve(path.size());
    for (size_t i = 0; i < path.size(); ++i) {
        if (path[i] != '%') {
            decoded += path[i];
            continue;
        }
        const int high = i + 2 < path.size() ? hex_value(path[i + 1]) : -1;
        const int low = high >= 0 ? hex_value(path[i + 2]) : -1;
        const char c = static_cast<char>(high * 16 + low);
        if (low < 0 || is_control(c)) return {};
        if (c == '/')
            decoded += "%2F";
        else if (c == '%')
            decoded += "%25";
        else
            decoded += c;
        i += 2;
    }
    return decoded;
}

}  // namespace

std::string_view HttpRequest::header(std::string_view lower_case_name) const {
    for (const auto& [name, value] : headers) {
        if (name == lower_case_name) return value;
    }
    return {};
}

size_t HttpRequestReader::take(std::string_view bytes) {
    size_t used = 0;
    if (state_ == State::header) used = take_header(bytes);
    if (state_ == State::body) used += take_body(bytes.substr(used));
    return used;
}

size_t HttpRequestReader::take_header(std::string_view bytes) {
    size_t begin = 0;
    if (scanned_bytes_ == 0) {
        // Some clients send an empty line after a body; RFC 9112 (2.2) asks to read over it.
        while (bytes.substr(begin, 2) == "\r\n") begin += 2;
        is_between_ = begin == bytes.size() || bytes.substr(begin) == "\r";
        if (is_between_) return begin;
    }
    const std::string_view header = bytes.substr(begin);
    const size_t header_bytes = find_end(header);
    if (header_bytes == 0) return begin;
    parse_header(header.substr(0, header_bytes));
    return begin + header_bytes;
}

size_t HttpRequestReader::find_end(std::string_view bytes) {
    for (; scanned_bytes_ < bytes.size(); ++scanned_bytes_) {
        if (scanned_bytes_ == limits_.header_bytes_max) {
            refuse(431,
                   "the header is too long, it must be at most " + std::to_string(limits_.header_bytes_max) + " bytes");
            return 0;
        }
        const char c = bytes[scanned_bytes_];
        const char previous = scanned_bytes_ > 0 ? bytes[scanned_bytes_ - 1] : '\n';
        if ((previous == '\r') != (c == '\n')) {
            refuse(400, "a line of the header must end with CR LF");
            return 0;
        }
        if (is_control(c) && c != '\t' && c != '\r' && c != '\n') {
            refuse(400, "a control character stands in the header");
            return 0;
        }
        if (previous == '\n' && (c == ' ' || c == '\t')) {
            refuse(400, "a line of the header begins with white space");
            return 0;
        }
        if (c == '\n' && bytes.substr(0, scanned_bytes_ + 1).ends_with("\r\n\r\n")) return scanned_bytes_ + 1;
    }
    return 0;
}

void HttpRequestReader::parse_header(std::string_view header) {
    http::request_parser<http::empty_body> parser;
    parser.skip(true);  // the body is read here, not by Beast
    parser.header_limit(std::numeric_limits<uint32_t>::max());
    boost::beast::error_code error;
    parser.put(boost::asio::buffer(header.data(), header.size()), error);
    if (error || !parser.is_done()) {
        refuse(400, "the header is malformed" + (error ? ": " + error.message() : std::string()));
        return;
    }
    const auto& message = parser.get();
    http11_ = message.version() == 11;
    keeps_alive_ = http11_ && parser.keep_alive();
    request_.method = std::string(view(message.method_string()));
    for (const auto& field : message)
        request_.headers.emplace_back(lower(view(field.name_string())), std::string(view(field.value())));
    if (set_target(view(message.target())) && check_fields()) {
        const auto content_bytes = parser.content_length();
        start_body(content_bytes ? std::optional<uint64_t>(*content_bytes) : std::nullopt);
    }
}

bool HttpRequestReader::set_target(std::string_view target) {
    if (std::ranges::any_of(target, [](char c) { return static_cast<unsigned char>(c) > 0x7f; }))
        return refuse(400, "the target must be ASCII, other bytes percent-encoded");
    if (target == "*" && request_.method == "OPTIONS") {
        request_.path = "*";
        return true;
    }
    // A client that takes us for a proxy sends the whole URL; its host is of no interest.
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (lower(target.substr(0, scheme.size())) != scheme) continue;
        const size_t end = target.find_first_of("/?", scheme.size());
        target.remove_prefix(std::min(end, target.size()));
        if (!target.starts_with('/')) return refuse(400, "the target has no path");
    }
    const size_t path_bytes = std::min(target.find('?'), target.size());
    request_.path = decode_path(target.substr(0, path_bytes));
    request_.query = target.substr(std::min(path_bytes + 1, target.size()));
    if (!request_.path.starts_with('/'))
        return refuse(400, "the target must begin with '/', with %XX escapes of no control character");
    return true;
}

bool HttpRequestReader::check_fields() {
    size_t hosts = 0;
    size_t lengths = 0;
    size_t codings = 0;
    for (const auto& [name, value] : request_.headers) {
        if (name == "host") ++hosts;
        if (name == "content-length") {
            if (++lengths > 1 || value.find_first_not_of("0123456789") != std::string::npos)
                return refuse(400, "Content-Length must be one number");
        } else if (name == "transfer-encoding") {
            if (++codings > 1 || lower(value) != "chunked" || !http11_)
                return refuse(400, "Transfer-Encoding must be 'chunked' alone, over HTTP/1.1");
        } else if (name == "expect") {
            if (lower(value) != "100-continue") return refuse(417, "Expect must be '100-continue'");
            expects_continue_ = http11_;
        }
    }
    if (hosts > 1 || (http11_ && hosts == 0)) return refuse(400, "there must be one Host header");
    if (codings > 0) chunks_.emplace(limits_.body_bytes_max);
    return true;
}

void HttpRequestReader::start_body(std::optional<uint64_t> content_bytes) {
    if (content_bytes > limits_.body_bytes_max) {
        refuse(413, "the body is too long, it must be at most " + std::to_string(limits_.body_bytes_max) + " bytes");
        return;
    }
    body_bytes_left_ = content_bytes.value_or(0);
    state_ = chunks_ || body_bytes_left_ > 0 ? State::body : State::done;
}

size_t HttpRequestReader::take_body(std::string_view bytes) {
    if (!chunks_) {
        const size_t count = std::min(bytes.size(), body_bytes_left_);
        request_.body.append(bytes.substr(0, count));
        body_bytes_left_ -= count;
        if (body_bytes_left_ == 0) state_ = State::done;
        return count;
    }
    const size_t count = chunks_->take(bytes, request_.body);
    if (chunks_->state() == HttpChunks::State::done) state_ = State::done;
    if (chunks_->state() == HttpChunks::State::malformed) refuse(400, "the chunked body is malformed");
    if (chunks_->state() == HttpChunks::State::too_large)
        refuse(413, "the body is too long, it must be at most " + std::to_string(limits_.body_bytes_max) + " bytes");
    return count;
}

bool HttpRequestReader::refuse(int status, std::string message) {
    state_ = State::refused;
    refusal_ = {status, std::move(message)};
    return false;
}

}  // namespace rondo
