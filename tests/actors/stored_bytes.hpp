#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/result.hpp"
#include "memory/store/record_header.hpp"

namespace rondo::testing {

using Bytes = std::vector<std::byte>;

/// With the checksum that the bytes before it must have.
inline Bytes sealed(Bytes bytes) {
    const std::span<std::byte> all(bytes);
    const uint64_t sum = checksum_of(all.first(all.size() - sizeof(sum)));
    std::memcpy(all.last(sizeof(sum)).data(), &sum, sizeof(sum));
    return bytes;
}

template <class T>
Bytes with_number(Bytes bytes, size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof(value));
    return sealed(std::move(bytes));
}

/// With this code, and in one line.
inline bool is_refused(const Error& error, ErrorCode code) {
    return error.code == code && !error.message.empty() && error.message.find('\n') == std::string::npos;
}

}  // namespace rondo::testing
