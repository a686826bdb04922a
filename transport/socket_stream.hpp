#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transport/byte_stream.hpp"

namespace rondo {

/// A TCP connection to a host, by its name or address; a name's addresses are tried in their order, each for 20 s at
/// most. The name itself is looked up without regard for the deadline.
Result<std::unique_ptr<ByteStream>> connect_socket(const std::string& host, uint16_t port, const Patience& patience);

}  // namespace rondo
