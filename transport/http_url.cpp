#include "transport/http_url.hpp"

#include <algorithm>
#include <charconv>

namespace rondo {

namespace {

constexpr std::string_view plain_scheme = "http://", tls_scheme = "https://";
constexpr uint16_t plain_port = 80, tls_port = 443;
constexpr size_t url_bytes_max = 2048;

/// What follows may hold a password, so errors name the fault and never the text.
Error wrong(const std::string& what) {
    return make_error(ErrorCode::invalid_argument, "URL: " + what + "; it must be http://HOST:PORT/PATH");
}

bool begins_with(std::string_view text, std::string_view lower_case_prefix) {
    if (text.size() < lower_case_prefix.size()) return false;
    return std::equal(lower_case_prefix.begin(), lower_case_prefix.end(), text.begin(),
                      [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + 32) : b); });
}

bool is_alphanumeric(char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

bool is_host_byte(char byte) {
    return is_alphanumeric(byte) || byte == '.' || byte == '-' || byte == '_';
}

bool is_address_byte(char byte) {
    return is_alphanumeric(byte) || byte == '.' || byte == ':';
}

bool is_path_byte(char byte) {
    return byte > ' ' && byte < 0x7f && byte != '?' && byte != '#' && byte != '\\' && byte != '"';
}

std::string_view without_slashes(std::string_view path) {
    while (path.ends_with('/')) path.remove_suffix(1);
    return path;
}

Result<uint16_t> parse_port(std::string_view text) {
    unsigned port = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error != std::errc() || end != text.data() + text.size() || port < 1 || port > 65535) {
        return wrong("its port is not a number from 1 to 65535");
    }
    return static_cast<uint16_t>(port);
}

}  // namespace

Result<Url> Url::parse(std::string_view text) {
    if (text.size() > url_bytes_max) return wrong("it is longer than " + std::to_string(url_bytes_max) + " bytes");
    Url url;
    url.tls = begins_with(text, tls_scheme);
    if (!url.tls && !begins_with(text, plain_scheme)) return wrong("it does not begin with http:// or https://");
    text.remove_prefix((url.tls ? tls_scheme : plain_scheme).size());
    url.port = url.tls ? tls_port : plain_port;
    const size_t slash = std::min(text.find('/'), text.size());
    std::string_view host = text.substr(0, slash);
    std::string_view path = text.substr(slash);
    if (host.find('@') != host.npos) return wrong("it names a user");

    std::string_view port;
    const bool bracketed = !host.empty() && host.front() == '[';
    const size_t host_end = bracketed ? host.find(']') : std::min(host.find(':'), host.size());
    if (host_end == host.npos) return wrong("its [ has no ]");
    const std::string_view rest = host.substr(host_end + (bracketed ? 1 : 0));
    host = bracketed ? host.substr(1, host_end - 1) : host.substr(0, host_end);
    if (!rest.empty()) {
        if (rest.front() != ':') return wrong("something follows its host that is not a port");
        port = rest.substr(1);
        RONDO_ASSIGN(url.port, parse_port(port));
    }
    if (host.empty() || !std::all_of(host.begin(), host.end(), bracketed ? is_address_byte : is_host_byte)) {
        return wrong("its host is not a name or an address");
    }
    if (!std::all_of(path.begin(), path.end(), is_path_byte)) return wrong("its path holds what no path may");
    url.host = host;
    url.path = without_slashes(path);
    return url;
}

Url Url::without_v1() const {
    constexpr std::string_view root = "/v1";
    Url url = *this;
    if (path.ends_with(root)) url.path = without_slashes(std::string_view(path).substr(0, path.size() - root.size()));
    return url;
}

std::string Url::authority() const {
    const bool v6 = host.find(':') != host.npos;
    const std::string name = v6 ? "[" + host + "]" : host;
    return port == (tls ? tls_port : plain_port) ? name : name + ":" + std::to_string(port);
}

std::string Url::origin() const {
    return std::string(tls ? tls_scheme : plain_scheme) + authority();
}

bool Url::is_loopback() const {
    return host == "localhost" || host == "::1" ||
           (host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos);
}

}  // namespace rondo
