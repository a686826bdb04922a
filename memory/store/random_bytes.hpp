#pragma once

#include <sys/random.h>

#include <cstddef>
#include <span>

namespace rondo {

/// Fills at most 256 bytes from the kernel's generator. OpenSSL's keeps a state in each thread. A thread that nobody
/// joins would free it while the process, and OpenSSL with it, ends.
inline bool fill_random(std::span<std::byte> bytes) {
    return getrandom(bytes.data(), bytes.size(), 0) == std::ssize(bytes);
}

}  // namespace rondo
