#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace rondo {

/// Takes numbers out of bytes of RocksDB's. Behind the end everything is zero or empty, and `is_whole` says no.
class ByteCursor {
public:
    explicit ByteCursor(std::string_view bytes) : rest_(bytes) {}

    std::string_view take(uint64_t count) {
        if (count > rest_.size()) {
            whole_ = false;
            rest_ = {};
            return {};
        }
        const std::string_view taken = rest_.substr(0, count);
        rest_.remove_prefix(count);
        return taken;
    }
    /// Of a fixed length, the lowest byte first.
    template <std::unsigned_integral T>
    T fixed() {
        T value = 0;
        if (const std::string_view bytes = take(sizeof(T)); !bytes.empty())
            std::memcpy(&value, bytes.data(), sizeof(T));
        return value;
    }
    /// Seven bits a byte, the lowest first; the last byte has no highest bit.
    uint64_t varint() {
        uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            const std::string_view byte = take(1);
            if (byte.empty()) return 0;
            const auto bits = static_cast<uint8_t>(byte[0]);
            value |= uint64_t{bits & 0x7fU} << shift;
            if (bits < 0x80) return value;
        }
        whole_ = false;
        return 0;
    }
    std::string_view sized() { return take(varint()); }  ///< behind its length

    bool is_whole() const { return whole_; }
    bool is_empty() const { return rest_.empty(); }
    size_t left() const { return rest_.size(); }
    std::string_view rest() const { return rest_; }

private:
    std::string_view rest_;
    bool whole_ = true;
};

}  // namespace rondo
