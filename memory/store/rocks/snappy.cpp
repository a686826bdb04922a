#include "memory/store/rocks/snappy.hpp"

#include <algorithm>
#include <cstdint>

#include "memory/store/rocks/byte_cursor.hpp"

namespace rondo {

namespace {

constexpr uint64_t expansion_max = 32;  // three bytes give 64 at most

uint64_t number_of(std::string_view bytes) {
    uint64_t value = 0;
    for (size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
    return value;
}

/// Bytes that are there already, once more; they may overlap those that they make.
bool repeat(std::string& out, uint64_t distance, uint64_t count) {
    if (distance == 0 || distance > out.size()) return false;
    for (uint64_t i = 0; i < count; ++i) out.push_back(out[out.size() - distance]);
    return true;
}

}  // namespace

Result<std::string> expand_snappy(std::string_view packed) {
    const Error damaged = make_error(ErrorCode::corrupt, "compressed bytes are damaged");
    ByteCursor in(packed);
    const uint64_t bytes = in.varint();
    if (!in.is_whole() || bytes > expansion_max * packed.size()) return damaged;
    std::string out;
    out.reserve(bytes);
    while (!in.is_empty()) {
        const unsigned tag = in.fixed<uint8_t>();
        uint64_t count = tag >> 2U;
        bool fits = true;
        if ((tag & 3U) == 0) {  // bytes as they are
            if (count >= 60) count = number_of(in.take(count - 59));
            fits = count < bytes - out.size();
            if (fits) out += in.take(count + 1);
        } else if ((tag & 3U) == 1) {
            count = (count & 7U) + 4;
            const uint64_t distance = uint64_t{tag >> 5U} << 8 | in.fixed<uint8_t>();
            fits = count <= bytes - out.size() && repeat(out, distance, count);
        } else {
            const uint64_t distance = number_of(in.take((tag & 3U) == 2 ? 2 : 4));
            fits = count < bytes - out.size() && repeat(out, distance, count + 1);
        }
        if (!fits || !in.is_whole()) return damaged;
    }
    if (out.size() != bytes) return damaged;
    return out;
}

}  // namespace rondo
