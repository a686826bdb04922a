#include "memory/store/key_file.hpp"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "config/hex_value.hpp"

namespace rondo {

namespace {

constexpr size_t digits = 2 * sizeof(SealKey::Bytes);
constexpr size_t bytes_max = KeyFile::keys_max * (digits + 2);  // with the ends of the lines
using Text = std::array<char, bytes_max>;

Error refused(const std::string& path, const std::string& why) {
    return make_error(ErrorCode::invalid_argument, "memory.disk.key_file " + path + ": " + why);
}

Status add_line(KeyFile& keys, std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.size() != digits || !std::ranges::all_of(line, [](char c) { return hex_value(c) >= 0; }))
        return make_error(ErrorCode::invalid_argument,
                          "must be 64 hexadecimal digits, as 'openssl rand -hex 32' prints them");
    SealKey::Bytes key{};
    for (size_t i = 0; i < key.size(); ++i)
        key[i] = static_cast<std::byte>(16 * hex_value(line[2 * i]) + hex_value(line[2 * i + 1]));
    keys.add(key);
    OPENSSL_cleanse(key.data(), key.size());
    return Status::ok();
}

/// How much of the file there is.
Result<size_t> read_text(const std::string& path, Text& text) {
    // A pipe that nobody writes to would hold up the start.
    const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return refused(path, errno == ELOOP ? "must be a file, and not a link" : std::strerror(errno));
    struct stat what = {};
    const bool known = fstat(file, &what) == 0 && S_ISREG(what.st_mode);
    const ssize_t count = known ? ::read(file, text.data(), text.size()) : -1;
    close(file);
    if (!known) return refused(path, "must be a file");
    if (what.st_uid != geteuid() || (what.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return refused(path, "must belong to the user who runs this and be closed to others (chmod 600)");
    if (count < 0) return refused(path, "cannot be read");
    if (what.st_size > std::ssize(text))
        return refused(path, "must have at most " + std::to_string(KeyFile::keys_max) + " lines of 64 digits");
    return static_cast<size_t>(count);
}

}  // namespace

Result<KeyFile> KeyFile::read(const std::string& path) {
    Text text{};
    struct Cleanse {
        Text& text;
        ~Cleanse() { OPENSSL_cleanse(text.data(), text.size()); }
    } cleanse{text};
    RONDO_ASSIGN(const size_t size, read_text(path, text));
    std::string_view rest(text.data(), size);
    while (rest.ends_with('\n') || rest.ends_with('\r')) rest.remove_suffix(1);
    KeyFile made;
    for (size_t line = 1; line == 1 || !rest.empty(); ++line) {
        if (line > keys_max)
            return refused(path, "must have at most " + std::to_string(keys_max) + " lines of 64 digits");
        const size_t end = std::min(rest.find('\n'), rest.size());
        const Status added = add_line(made, rest.substr(0, end));
        if (!added) return refused(path, "line " + std::to_string(line) + " " + added.error().message);
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return made;
}

}  // namespace rondo
