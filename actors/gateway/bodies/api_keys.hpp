#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace rondo {

/// Who may use the server, and as whom. Without a file every client may, as tenant "default". Holds hashes, never a
/// key. Immutable, safe to share.
class ApiKeys {
public:
    /// One "KEY TENANT" a line; blank lines, and '#' to the line's end, say nothing. Errors name the line, never its
    /// text. Several keys may be one tenant's; a file without any key is an error, for it would lock everyone out.
    /// A file that others than the server's user and root may read is an error, unless it is `shared`; one that they
    /// may write always is.
    static Result<ApiKeys> read(const std::filesystem::path& path, bool shared = false);
    static Result<ApiKeys> parse(std::string_view text, const std::string& where);

    /// The tenant of the value of an Authorization header ("" for none), or nothing for a wrong one. Takes as long
    /// whichever key is right, and whether one is.
    std::optional<std::string> tenant_of(std::string_view authorization) const;
    /// To whom keys lead, each once; "default" without a file.
    std::vector<std::string> tenants() const;
    /// Whether a line of a file could name it.
    static bool may_be_tenant(std::string_view word);

private:
    using Digest = std::array<uint8_t, 32>;

    struct Entry {
        Digest digest;
        std::string tenant;
        int line;
    };

    static Digest digest_of(std::string_view key);
    /// Adds what one line says; returns what is wrong with it, or "".
    std::string add(std::string_view line, int number);

    bool open_ = true;
    std::vector<Entry> entries_;
};

}  // namespace rondo
