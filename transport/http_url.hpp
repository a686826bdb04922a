#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/result.hpp"

namespace rondo {

/// Where a server listens, from "http://HOST:PORT/PATH" or "https://HOST:PORT/PATH".
struct Url {
    bool tls = false;
    std::string host;  ///< a name or an address; IPv6 without its brackets
    uint16_t port = 80;
    std::string path;  ///< "", or begins with a slash and ends without one

    static Result<Url> parse(std::string_view text);
    /// The URL without a /v1 at the end of its path. SDKs want it there, people leave it out, and targets begin with
    /// it.
    Url without_v1() const;
    /// HOST:PORT as a Host header has it: the scheme's own port is left out.
    std::string authority() const;
    /// "https://HOST:PORT": whom it reaches, in words for people.
    std::string origin() const;
    /// Whether what is sent there stays on this machine.
    bool is_loopback() const;
};

}  // namespace rondo
