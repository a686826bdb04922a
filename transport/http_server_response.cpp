#include "transport/http_server_response.hpp"

#include <array>
#include <boost/beast/http/status.hpp>
#include <cstdio>
#include <ctime>

namespace rondo {

namespace {

std::string_view reason(int status) {
    namespace http = boost::beast::http;
    const auto text = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
    return {text.data(), text.size()};
}

/// As RFC 9110 (5.6.7) has it; not by strftime, whose names depend on the locale.
std::string date_now() {
    constexpr std::array<const char*, 7> days = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    constexpr std::array<const char*, 12> months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                    "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    std::array<char, 64> text{};
    const int length =
        std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT", days[utc.tm_wday], utc.tm_mday,
                      months[utc.tm_mon], 1900 + utc.tm_year, utc.tm_hour, utc.tm_min, utc.tm_sec);
    return {text.data(), static_cast<size_t>(length)};
}

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
    if (text.size() != lower.size()) return false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != lower[i]) return false;
    }
    return true;
}

bool is_ours(std::string_view name) {
    for (const std::string_view own : {"content-length", "transfer-encoding", "connection", "date"}) {
        if (equals_ignoring_case(name, own)) return true;
    }
    return false;
}

void append_harmless(std::string& head, std::string_view text) {
    for (const char c : text) head += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
}

}  // namespace

std::string http_response_head(int status, const HttpHeaders& headers, const HttpFraming& framing) {
    std::string head = "HTTP/1.1 " + std::to_string(status) + ' ';
    head += reason(status);
    head += "\r\nDate: " + date_now() + "\r\n";
    for (const auto& [name, value] : headers) {
        if (is_ours(name)) continue;
        append_harmless(head, name);
        head += ": ";
        append_harmless(head, value);
        head += "\r\n";
    }
    if (framing.content_bytes) head += "Content-Length: " + std::to_string(*framing.content_bytes) + "\r\n";
    if (framing.chunked) head += "Transfer-Encoding: chunked\r\n";
    if (framing.close) head += "Connection: close\r\n";
    return head + "\r\n";
}

std::string http_chunk(std::string piece) {
    if (piece.empty()) return piece;
    std::array<char, 24> size{};
    const int length = std::snprintf(size.data(), size.size(), "%zx\r\n", piece.size());
    piece.insert(0, size.data(), static_cast<size_t>(length));
    return piece += "\r\n";
}

HttpHeaders http_error_headers() {
    return {{"Content-Type", "application/json"}};
}

std::string http_error_body(int status, std::string_view message) {
    std::string body = R"({"error":{"message":")";
    body += message;
    body += status < 500 ? R"(","type":"invalid_request_error"}})" : R"(","type":"server_error"}})";
    return body += '\n';
}

bool http_has_body(int status) {
    return status >= 200 && status != 204 && status != 304;
}

}  // namespace rondo
