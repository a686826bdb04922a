#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/result.hpp"
#include "memory/store/byte_io.hpp"

namespace rondo {

/// What bytes hold. The number stands in them, so no kind is taken for another.
struct StoredKind {
    uint8_t number = 0;
    const char* name = "";  ///< for errors: "a stored conversation"
};

/// The version that is written. It leads the bytes, so that later versions can read them. Those add fields at the end
/// of a part; their FieldReader skips each field that is newer than the bytes, and the field keeps its default.
inline constexpr uint32_t stored_version = 1;

Error damaged(const StoredKind& kind, const std::string& what);

/// Puts a version, a kind and then fields one behind the other: texts and lists with their size before them. Where a
/// field has fields of its own, `fields(io, item)` names them.
class FieldWriter {
public:
    explicit FieldWriter(const StoredKind& kind) { (*this)(stored_version, kind.number); }

    template <class... T>
    void operator()(const T&... values) {
        (put(values), ...);
    }
    template <class T>
    void list(const std::vector<T>& items, auto fields) {
        put(items.size());
        for (const T& item : items) fields(*this, item);
    }
    template <class T>
    void maybe(const std::optional<T>& item, auto fields) {
        put(static_cast<uint8_t>(item.has_value()));
        if (item) fields(*this, *item);
    }
    /// All of it, and a checksum behind it.
    std::vector<std::byte> take();

private:
    void put(std::integral auto value) { out_.put(value); }
    void put(double value) { out_.put(std::bit_cast<uint64_t>(value)); }
    template <class T>
    requires std::is_enum_v<T>
    void put(T value) { out_.put(static_cast<std::underlying_type_t<T>>(value)); }
    void put(const std::string& text) {
        out_.put(text.size());
        out_.put(std::as_bytes(std::span(text)));
    }
    void put(const std::vector<int32_t>& ids) {
        out_.put(ids.size());
        out_.put_all(std::span<const int32_t>(ids));
    }

    RecordWriter out_;
};

/// Takes them out again, in the same order. Texts and lists grow with what is read, so a size that lies allocates
/// nothing. Behind the end everything is zero; `check_end` says so.
class FieldReader {
public:
    static constexpr int64_t number_max = int64_t{1} << 60;  ///< sums of a few of them fit

    /// Refuses (corrupt) what is cut off, changed or of another kind, and (unsupported) another version.
    static Result<FieldReader> open(const StoredKind& kind, std::span<const std::byte> bytes);

    template <class... T>
    void operator()(T&... values) {
        (take(values), ...);
    }
    template <class T>
    void list(std::vector<T>& items, auto fields) {
        const auto count = in_.take<uint64_t>();
        for (uint64_t i = 0; i < count && is_whole(); ++i) fields(*this, items.emplace_back());
    }
    template <class T>
    void maybe(std::optional<T>& item, auto fields) {
        const auto is_there = in_.take<uint8_t>();
        possible_ = possible_ && is_there <= 1;
        if (is_there == 1) fields(*this, item.emplace());
    }

    bool is_whole() const { return in_.is_whole(); }
    /// Everything was there, nothing else is, and each number can be one: signed ones are from -1 to 2^60, others
    /// finite.
    Status check_end() const;

private:
    FieldReader(const StoredKind& kind, std::span<const std::byte> fields) : kind_(kind), in_(fields) {}

    template <std::unsigned_integral T>
    void take(T& value) {
        value = in_.take<T>();
    }
    template <std::signed_integral T>
    void take(T& value) {
        value = in_.take<T>();
        possible_ = possible_ && value >= -1 && value <= number_max;
    }
    template <class T>
    requires std::is_enum_v<T>
    void take(T& value) { value = static_cast<T>(in_.take<std::underlying_type_t<T>>()); }
    void take(double& value) {
        value = std::bit_cast<double>(in_.take<uint64_t>());
        possible_ = possible_ && std::isfinite(value);
    }
    void take(std::string& text) {
        const std::span<const std::byte> bytes = in_.take(in_.take<uint64_t>());
        if (!bytes.empty()) text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    void take(std::vector<int32_t>& ids) { ids = in_.take_all<int32_t>(in_.take<uint64_t>()); }

    StoredKind kind_;
    RecordReader in_;
    bool possible_ = true;
};

}  // namespace rondo
