#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "memory/store/store_keys.hpp"

namespace rondo {

/// The keys of an operator's file, one a line. The first is the key; the others may open what it has not sealed yet.
class KeyFile {
public:
    static constexpr size_t keys_max = 8;

    /// A file of this user's that others cannot read: lines of 64 hexadecimal digits, and nothing else.
    static Result<KeyFile> read(const std::string& path);
    explicit KeyFile(const SealKey::Bytes& first) { add(first); }
    void add(const SealKey::Bytes& next) { keys_.emplace_back(next); }

    std::span<const StoreKeys> keys() const { return keys_; }

private:
    KeyFile() = default;

    std::vector<StoreKeys> keys_;
};

}  // namespace rondo
