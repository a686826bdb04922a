#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "memory/store/record_header.hpp"

/// Keys of the store's manifest: a letter that says what the value is, and the name of whose it is.
namespace rondo::store {

// Of records, and of what a conversation has on the shelf.
inline constexpr char record_letter = 'r';
inline constexpr char head_letter = 'c', body_letter = 't', refers_letter = 'o';

/// The whole key of what was written in one day.
inline constexpr const char* day_key = "d";

inline std::string key_of(char letter, const StoreName& name) {
    std::string key(1, letter);
    key.append(reinterpret_cast<const char*>(name.data()), name.size());
    return key;
}

/// The name behind a key's letter; zeros where none is.
inline StoreName name_in(std::string_view key) {
    StoreName name{};
    if (key.size() == 1 + name.size()) std::memcpy(name.data(), key.data() + 1, name.size());
    return name;
}

inline std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace rondo::store
