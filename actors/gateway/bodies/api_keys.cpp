#include "actors/gateway/bodies/api_keys.hpp"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <set>

#include "config/limits.hpp"

namespace rondo {

namespace {

constexpr size_t tenant_bytes_max = 64;

struct Opened {
    explicit Opened(int opened) : descriptor(opened) {}
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;
    ~Opened() {
        if (descriptor >= 0) ::close(descriptor);
    }
    const int descriptor;
};

std::string octal(mode_t mode) {
    char text[8];
    std::snprintf(text, sizeof text, "%04o", mode & 07777U);
    return text;
}

/// Of the file that is open, so that no other can take its place in between.
Status check_privacy(int descriptor, const std::string& path, bool shared) {
    constexpr mode_t write = S_IWGRP | S_IWOTH, read = S_IRGRP | S_IROTH, all = S_IRWXG | S_IRWXO;
    struct stat status {};
    if (::fstat(descriptor, &status) != 0)
        return make_error(ErrorCode::io, path + ": the file of API keys cannot be read");
    const uid_t us = ::geteuid();
    const bool can_change = status.st_uid == us || us == 0;
    const bool others_write = (status.st_mode & write) != 0;
    std::string why, command;
    if ((status.st_mode & (shared ? write : all)) != 0) {
        const char* const what = others_write ? "write" : (status.st_mode & read) != 0 ? "read" : "run";
        why = "mode " + octal(status.st_mode) + " lets others " + what + " the file of API keys";
        command = can_change ? "chmod 600 " : "chmod go-w ";
    } else if (status.st_uid != us && status.st_uid != 0 && !shared) {
        why = "user " + std::to_string(status.st_uid) + " owns the file of API keys and can read it";
        command = "chown " + std::to_string(us) + " ";
    } else {
        return Status::ok();
    }
    // What another user mounted for us to read is not ours to change.
    const std::string setting =
        others_write ? "" : std::string(can_change ? ", or" : ";") + " server.api_keys_shared must be true";
    const std::string run = can_change     ? "; run: " + command + path
                            : others_write ? "; its owner must run: " + command + path
                                           : "";
    return make_error(ErrorCode::invalid_argument, path + ": " + why + run + setting);
}

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

constexpr const char* open_tenant = "default";

}  // namespace

bool ApiKeys::may_be_tenant(std::string_view word) {
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return !word.empty() && word.size() <= tenant_bytes_max &&
           word.find_first_not_of(allowed) == std::string_view::npos;
}

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
    if (tenant.empty()) return "no tenant after the key; the line must be KEY TENANT";
    if (!may_be_tenant(tenant)) {
        return "the tenant is not 1 to " + std::to_string(tenant_bytes_max) + " letters, digits, '_' and '-'";
    }
    if (!take_word(line).empty()) return "more than two words; the line must be KEY TENANT";
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
        return make_error(ErrorCode::invalid_argument, where + ": no key; at least one line must be KEY TENANT");
    }
    return keys;
}

Result<ApiKeys> ApiKeys::read(const std::filesystem::path& path, bool shared) {
    const Opened file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.descriptor < 0)
        return make_error(ErrorCode::not_found, path.string() + ": the file of API keys cannot be read");
    RONDO_TRY(check_privacy(file.descriptor, path.string(), shared));
    std::string text(limits::api_keys_bytes_max + 1, '\0');
    size_t filled = 0;
    while (filled < text.size()) {
        const ssize_t got = ::read(file.descriptor, text.data() + filled, text.size() - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return make_error(ErrorCode::io, path.string() + ": the file of API keys cannot be read");
        if (got == 0) break;
        filled += static_cast<size_t>(got);
    }
    text.resize(filled);
    if (text.size() > limits::api_keys_bytes_max) {
        return make_error(ErrorCode::out_of_range, path.string() + ": a file of API keys above " +
                                                       std::to_string(limits::api_keys_bytes_max) + " bytes");
    }
    return parse(text, path.string());
}

std::optional<std::string> ApiKeys::tenant_of(std::string_view authorization) const {
    if (open_) return open_tenant;
    const Digest digest = digest_of(bearer_token(authorization));
    const Entry* right = nullptr;
    for (const Entry& entry : entries_) {
        if (CRYPTO_memcmp(digest.data(), entry.digest.data(), digest.size()) == 0) right = &entry;
    }
    if (right == nullptr) return std::nullopt;
    return right->tenant;
}

std::vector<std::string> ApiKeys::tenants() const {
    if (open_) return {open_tenant};
    std::set<std::string> tenants;
    for (const Entry& entry : entries_) tenants.insert(entry.tenant);
    return {tenants.begin(), tenants.end()};
}

}  // namespace rondo
