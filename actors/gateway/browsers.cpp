#include "actors/gateway/browsers.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

namespace rondo {

namespace {

constexpr size_t allowed_fields_bytes_max = 1024;

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
    return std::ranges::equal(a, b, {}, lower, lower);
}

/// A Host header without its port, and without the dot that ends a full name; an IPv6 address keeps its brackets.
std::string name_of(std::string_view host) {
    const size_t colon = host.starts_with('[') ? host.find(':', std::min(host.find(']'), host.size())) : host.find(':');
    std::string name(host.substr(0, colon));
    std::ranges::transform(name, name.begin(), lower);
    if (name.size() > 1 && name.ends_with('.')) name.pop_back();
    return name;
}

/// An origin without its scheme, which whoever ends TLS before this server does not tell.
std::string_view authority_of(std::string_view origin) {
    const size_t scheme_bytes = origin.find("://");
    return scheme_bytes == std::string_view::npos ? std::string_view() : origin.substr(scheme_bytes + 3);
}

bool is_address(const std::string& name) {
    in_addr v4{};
    in6_addr v6{};
    if (name.starts_with('[') && name.ends_with(']'))
        return inet_pton(AF_INET6, name.substr(1, name.size() - 2).c_str(), &v6) == 1;
    return inet_pton(AF_INET, name.c_str(), &v4) == 1;
}

/// A page whose name was bound anew to this machine ("DNS rebinding") is of this origin to its browser, but the name
/// stands in the Host header. Every browser sends one, so a request without comes from a program.
bool is_own_host(std::string_view host, const ServerSettings& server) {
    const std::string name = name_of(host);
    const auto is_name = [&](std::string_view known) { return name == name_of(known); };
    return host.empty() || name == "localhost" || name.ends_with(".localhost") || is_address(name) ||
           is_name(server.host) || is_name(authority_of(server.cors_origin)) ||
           std::ranges::any_of(server.allowed_hosts, is_name);
}

bool changes_something(std::string_view method) {
    constexpr std::array methods{"POST", "DELETE", "PUT", "PATCH"};
    return std::ranges::find(methods, method) != methods.end();
}

bool is_own_origin(std::string_view origin, std::string_view host) {
    const std::string_view authority = authority_of(origin);
    return !authority.empty() && equal_ignoring_case(authority, host);
}

}  // namespace

std::optional<ApiError> foreign_page(const HttpRequest& request, const ServerSettings& server) {
    if (!server.api_keys_file.empty()) return {};  // no browser adds a key by itself
    const std::string_view host = request.header("host");
    if (!is_own_host(host, server)) return foreign_host();
    const std::string_view origin = request.header("origin");
    if (origin.empty() || !changes_something(request.method) || is_own_origin(origin, host)) return {};
    if (server.cors_origin == "*" || origin == server.cors_origin) return {};
    return foreign_origin();
}

bool is_loopback(const std::string& host) {
    in_addr v4{};
    const bool is_v4 = inet_pton(AF_INET, host.c_str(), &v4) == 1;
    return equal_ignoring_case(host, "localhost") || (is_v4 && host.starts_with("127.")) || host == "::1";
}

std::string allowed_fields(std::string_view asked) {
    constexpr std::string_view others = "!#$%&'*+-.^_`|~, ";
    const auto fits = [&](char c) {
        return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') ||
               others.find(c) != std::string_view::npos;
    };
    if (asked.empty() || asked.size() > allowed_fields_bytes_max || !std::ranges::all_of(asked, fits))
        return "authorization, content-type";
    return std::string(asked);
}

}  // namespace rondo
