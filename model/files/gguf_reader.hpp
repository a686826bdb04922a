#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace rondo {

static_assert(std::endian::native == std::endian::little, "GGUF files are read as little-endian");

/// Walks over bytes from outside; every step says whether they were there.
class ByteReader {
public:
    explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    size_t position() const { return position_; }
    size_t left() const { return bytes_.size() - position_; }

    template <class T>
    std::optional<T> number() {
        T value;
        if (left() < sizeof(value)) return std::nullopt;
        std::memcpy(&value, bytes_.data() + position_, sizeof(value));
        position_ += sizeof(value);
        return value;
    }

    std::optional<std::span<const std::byte>> take(uint64_t count) {
        if (left() < count) return std::nullopt;
        position_ += count;
        return bytes_.subspan(position_ - count, count);
    }

    /// GGUF's strings: a length of 8 bytes, then the characters.
    std::optional<std::string_view> text() {
        const auto length = number<uint64_t>();
        const auto characters = length ? take(*length) : std::nullopt;
        if (!characters) return std::nullopt;
        return std::string_view(reinterpret_cast<const char*>(characters->data()), characters->size());
    }

private:
    std::span<const std::byte> bytes_;
    size_t position_ = 0;
};

}  // namespace rondo
