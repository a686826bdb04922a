#include "cli/server_options.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "cli/number_in.hpp"
#include "transport/http_url.hpp"

namespace rondo::cli {

namespace {

constexpr size_t key_bytes_max = 4096;
constexpr const char* key_variable = "OPENAI_API_KEY";

/// Checks the open file, so that no other file can take its place in between.
Status check_privacy(int descriptor, const std::string& path) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0) return make_error(ErrorCode::io, path + ": the key cannot be read");
    if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        char mode[8];
        std::snprintf(mode, sizeof mode, "%04o", status.st_mode & 07777U);
        return make_error(ErrorCode::invalid_argument,
                          path + ": mode " + mode + " lets others at the key; run: chmod 600 " + path);
    }
    if (status.st_uid != ::geteuid() && status.st_uid != 0) {
        return make_error(ErrorCode::invalid_argument, path + ": user " + std::to_string(status.st_uid) +
                                                           " owns the file of the key; it must be yours");
    }
    return Status::ok();
}

/// `where` it came from; the key itself is in no error.
Result<std::string> checked(std::string key, const std::string& where) {
    while (!key.empty() && (key.back() == '\n' || key.back() == '\r' || key.back() == ' ')) key.pop_back();
    const bool printable = std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; });
    if (!key.empty() && printable && key.size() <= key_bytes_max) return key;
    return make_error(ErrorCode::invalid_argument, where + ": the key must be one line of 1 to " +
                                                       std::to_string(key_bytes_max) + " printable ASCII characters");
}

Result<std::string> key_in(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return make_error(ErrorCode::not_found, path + ": the key cannot be read");
    std::string key(key_bytes_max + 2, '\0');  // with an end of line
    size_t filled = 0;
    const Status privacy = check_privacy(descriptor, path);
    while (privacy && filled < key.size()) {
        const ssize_t got = ::read(descriptor, key.data() + filled, key.size() - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        filled += static_cast<size_t>(got);
    }
    ::close(descriptor);
    RONDO_TRY(privacy);
    key.resize(filled);
    return checked(std::move(key), path);
}

}  // namespace

void ServerOptions::add_all(CLI::App& app, const std::string& model_flag) {
    app.add_option(model_flag, model_name, "name in the requests (default: the first that the server lists)");
    app.add_option("--api-key-file", api_key_file,
                   "file of mode 600 that holds the server's key (default: OPENAI_API_KEY of the environment)")
        ->type_name("FILE");
    app.add_option("--ca-file", ca_file,
                   "PEM file of the only certificates to trust (default: the system's, or SSL_CERT_FILE)")
        ->type_name("FILE");
    app.add_option("--timeout-s", timeout_s, "of one request")->check(number_in(0.001, 86400.0))->capture_default_str();
}

Result<std::string> ServerOptions::key() const {
    if (!api_key_file.empty()) return key_in(api_key_file);
    const char* const key = std::getenv(key_variable);
    return key == nullptr || *key == '\0' ? std::string() : checked(key, key_variable);
}

Result<std::shared_ptr<const TlsTrust>> ServerOptions::trust() const {
    RONDO_ASSIGN(const Url where, Url::parse(url));
    if (where.tls) return TlsTrust::load(ca_file);
    if (ca_file.empty()) return std::shared_ptr<const TlsTrust>();
    return make_error(ErrorCode::invalid_argument, "--ca-file with an http:// URL: it must be https://");
}

}  // namespace rondo::cli
