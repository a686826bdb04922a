#include "actors/api/api_keys.hpp"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <fstream>

#include "config/limits.hpp"

namespace rondo {

namespace {

constexpr size_t tenant_bytes_max = 64;

/// Takes the next word off `text`; "" at its end and at a comment.
std::string_view take_word(std::string_view& text) {
    constexpr std::string_view blanks = " \t\r";
    text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
    if (text.starts_with('#')) text = {};
    const std::string_view word = text.substr(0, text.find_first_of(blanks));
    text.remove_prefix(word.size());
    return word;
}

bool is_key(std::string_view word) {
    return word.size() >= limits::api_key_bytes_min && word.size() <= limits::api_key_bytes_max &&
           std::ranges::all_of(word, [](char c) { return c > ' ' && c <= '~'; });
}

bool is_tenant(std::string_view word) {
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return !word.empty() && word.size() <= tenant_bytes_max &&
           word.find_first_not_of(allowed) == std::string_view::npos;
}

/// The scheme's name counts in any case (RFC 9110).
std::string_view bearer_token(std::string_view authorization) {
    constexpr std::string_view scheme = "bearer ";
    const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
    if (authorization.size() < scheme.size()) return {};
    if (!std::ranges::equal(authorization.substr(0, scheme.size()), scheme, same)) return {};
    authorization.remove_prefix(scheme.size());
    authorization.remove_prefix(std::min(authorization.find_first_not_of(' '), authorization.size()));
    return authorization.substr(0, authorization.find_last_not_of(" \t") + 1);
}

}  // namespace

ApiKeys::Digest ApiKeys::digest_of(std::string_view key) {
    Digest digest{};
    SHA256(reinterpret_cast<const uint8_t*>(key.data()), key.size(), digest.data());
    return digest;
}

std::string ApiKeys::add(std::string_view line, int number) {
    const std::string_view key = take_word(line);
    if (key.empty()) return {};
    const std::string_view tenant = take_word(line);
    if (!is_key(key)) {
        return "the key is not " + std::to_string(limits::api_key_bytes_min) + " to " +
               std::to_string(limits::api_key_bytes_max) + " printable ASCII characters";
    }
    if (tenant.empty()) return "no tenant after the key; KEY TENANT would be right";
    if (!is_tenant(tenant)) {
        return "the tenant is not 1 to " + std::to_string(tenant_bytes_max) + " letters, digits, '_' and '-'";
    }
    if (!take_word(line).empty()) return "more than two words; KEY TENANT would be right";
    const Digest digest = digest_of(key);
    const auto same = std::ranges::find(entries_, digest, &Entry::digest);
    if (same != entries_.end()) return "the key of line " + std::to_string(same->line) + " again";
    entries_.push_back({digest, std::string(tenant), number});
    return {};
}

Result<ApiKeys> ApiKeys::parse(std::string_view text, const std::string& where) {
    ApiKeys keys;
    keys.open_ = false;
    for (int number = 1; !text.empty(); ++number) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const std::string problem = keys.add(line, number);
        if (problem.empty()) continue;
        return make_error(ErrorCode::invalid_argument, where + ":" + std::to_string(number) + ": " + problem);
    }
    if (keys.entries_.empty()) {
        return make_error(ErrorCode::invalid_argument, where + ": no key; at least one line KEY TENANT would be right");
    }
    return keys;
}

Result<ApiKeys> ApiKeys::read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return make_error(ErrorCode::not_found, path.string() + ": the file of API keys cannot be read");
    std::string text(limits::api_keys_bytes_max + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (file.bad()) return make_error(ErrorCode::io, path.string() + ": the file of API keys cannot be read");
    text.resize(static_cast<size_t>(file.gcount()));
    if (text.size() > limits::api_keys_bytes_max) {
        return make_error(ErrorCode::out_of_range, path.string() + ": a file of API keys above " +
                                                       std::to_string(limits::api_keys_bytes_max) + " bytes");
    }
    return parse(text, path.string());
}

std::optional<std::string> ApiKeys::tenant_of(std::string_view authorization) const {
    if (open_) return "default";
    const Digest digest = digest_of(bearer_token(authorization));
    const Entry* right = nullptr;
    for (const Entry& entry : entries_) {
        if (CRYPTO_memcmp(digest.data(), entry.digest.data(), digest.size()) == 0) right = &entry;
    }
    if (right == nullptr) return std::nullopt;
    return right->tenant;
}

}  // namespace rondo
