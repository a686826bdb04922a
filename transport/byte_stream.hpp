#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "config/result.hpp"

namespace rondo {

/// How long a client waits, and how it is asked whether to go on.
struct Patience {
    std::chrono::steady_clock::time_point deadline;
    std::function<bool()> goes_on = {};  ///< asked in each wait, every 100 ms at least; none: until the deadline
};

/// One connection of a client. Every call waits; one thread at a time. After an error the stream is of no more use.
/// Errors have the code timeout when the deadline is over and cancelled when the caller would not go on.
class ByteStream {
public:
    virtual ~ByteStream() = default;
    /// Waits for at least one byte; 0 when the other side has closed the stream in good order.
    virtual Result<size_t> read_some(std::span<char> into, const Patience& patience) = 0;
    virtual Status write(std::string_view bytes, const Patience& patience) = 0;
};

}  // namespace rondo
