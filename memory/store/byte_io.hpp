#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

namespace rondo {

static_assert(std::endian::native == std::endian::little, "what is stored is little-endian");

/// Puts numbers and bytes one behind the other.
class RecordWriter {
public:
    template <std::integral T>
    void put(T value) {
        bytes_.resize(bytes_.size() + sizeof(value));
        std::memcpy(bytes_.data() + bytes_.size() - sizeof(value), &value, sizeof(value));
    }
    void put(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
    template <std::integral T>
    void put_all(std::span<const T> values) {
        put(std::as_bytes(values));
    }
    /// Zeros up to a multiple of so many bytes.
    void pad(size_t multiple) { bytes_.resize((bytes_.size() + multiple - 1) / multiple * multiple); }

    size_t size() const { return bytes_.size(); }
    std::span<const std::byte> bytes() const { return bytes_; }
    std::vector<std::byte> take() { return std::move(bytes_); }

private:
    std::vector<std::byte> bytes_;
};

/// Takes them out again. Behind the end everything is zero, and `is_whole` says no.
class RecordReader {
public:
    explicit RecordReader(std::span<const std::byte> bytes) : rest_(bytes) {}

    template <std::integral T>
    T take() {
        T value{};
        if (const auto bytes = take(sizeof(T)); !bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(T));
        return value;
    }
    /// So many bytes, or none.
    std::span<const std::byte> take(size_t count) {
        if (count > rest_.size()) {
            whole_ = false;
            rest_ = {};
            return {};
        }
        const auto taken = rest_.first(count);
        rest_ = rest_.subspan(count);
        return taken;
    }
    /// So many numbers; none where there are not as many.
    template <std::integral T>
    std::vector<T> take_all(size_t count) {
        if (count > rest_.size() / sizeof(T)) {
            take(rest_.size() + 1);
            return {};
        }
        std::vector<T> values(count);
        if (count > 0) std::memcpy(values.data(), take(count * sizeof(T)).data(), count * sizeof(T));
        return values;
    }

    bool is_whole() const { return whole_; }
    size_t left() const { return rest_.size(); }

private:
    std::span<const std::byte> rest_;
    bool whole_ = true;
};

}  // namespace rondo
