#include <sstream>

#include "config/in_quotes.hpp"
#include "model/files/gguf.hpp"
#include "model/files/gguf_reader.hpp"

namespace rondo {
namespace {

template <class T>
T load(std::span<const std::byte> bytes) {
    T value;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
}

/// Nothing when the value is no integer or does not fit.
std::optional<int64_t> integer_of(GgufType type, std::span<const std::byte> bytes) {
    switch (type) {
        case GgufType::u8:
            return load<uint8_t>(bytes);
        case GgufType::i8:
            return load<int8_t>(bytes);
        case GgufType::u16:
            return load<uint16_t>(bytes);
        case GgufType::i16:
            return load<int16_t>(bytes);
        case GgufType::u32:
            return load<uint32_t>(bytes);
        case GgufType::i32:
            return load<int32_t>(bytes);
        case GgufType::i64:
            return load<int64_t>(bytes);
        case GgufType::u64: {
            const auto value = load<uint64_t>(bytes);
            return value <= uint64_t{INT64_MAX} ? std::optional<int64_t>(static_cast<int64_t>(value)) : std::nullopt;
        }
        default:
            return std::nullopt;
    }
}

std::string shown(double value) {
    std::ostringstream out;
    out << value;
    return out.str();
}

}  // namespace

Error GgufFile::wrong(std::string_view key, const std::string& right) const {
    return make_error(ErrorCode::corrupt, where_ + ": metadata " + in_quotes(key) +
                                              (find(key) ? " must be " : " is missing; it must be ") + right);
}

Result<int64_t> GgufFile::integer(std::string_view key, int64_t least, int64_t most,
                                  std::optional<int64_t> fallback) const {
    const GgufValue* value = find(key);
    if (value == nullptr && fallback) return *fallback;
    const auto number = value ? integer_of(value->type, value->bytes) : std::nullopt;
    if (number && *number >= least && *number <= most) return *number;
    return wrong(key, "an integer from " + std::to_string(least) + " to " + std::to_string(most));
}

Result<double> GgufFile::real(std::string_view key, double least, double most, std::optional<double> fallback) const {
    const GgufValue* value = find(key);
    if (value == nullptr && fallback) return *fallback;
    std::optional<double> number;
    if (value && value->type == GgufType::f32) number = load<float>(value->bytes);
    if (value && value->type == GgufType::f64) number = load<double>(value->bytes);
    if (number && *number >= least && *number <= most) return *number;
    return wrong(key, "a float from " + shown(least) + " to " + shown(most));
}

Result<bool> GgufFile::boolean(std::string_view key, bool fallback) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return fallback;
    const uint8_t byte = value->type == GgufType::boolean ? load<uint8_t>(value->bytes) : 2;
    if (byte > 1) return wrong(key, "a boolean, 0 or 1");
    return byte == 1;
}

Result<std::string> GgufFile::text(std::string_view key, size_t bytes_max, std::string fallback) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return fallback;
    if (value->type != GgufType::string || value->bytes.size() > bytes_max) {
        return wrong(key, "a string of at most " + std::to_string(bytes_max) + " bytes");
    }
    return std::string(reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size());
}

Result<const GgufValue*> GgufFile::array(std::string_view key, size_t count_max) const {
    const GgufValue* value = find(key);
    if (value != nullptr && (value->type != GgufType::array || value->count > count_max)) {
        return wrong(key, "an array of at most " + std::to_string(count_max) + " elements");
    }
    return value;
}

Result<std::vector<std::string>> GgufFile::texts(std::string_view key, size_t count_max) const {
    RONDO_ASSIGN(const GgufValue* value, array(key, count_max));
    std::vector<std::string> out;
    if (value == nullptr) return out;
    if (value->element != GgufType::string) return wrong(key, "an array of strings");
    ByteReader in(value->bytes);
    out.reserve(value->count);
    while (const auto text = in.text()) out.emplace_back(*text);
    return out;
}

Result<std::vector<int32_t>> GgufFile::integers(std::string_view key, size_t count_max) const {
    RONDO_ASSIGN(const GgufValue* value, array(key, count_max));
    std::vector<int32_t> out;
    if (value == nullptr) return out;
    out.reserve(value->count);
    for (uint64_t i = 0; i < value->count; ++i) {
        const size_t width = value->bytes.size() / value->count;
        const auto number = value->element == GgufType::string
                                ? std::nullopt
                                : integer_of(value->element, value->bytes.subspan(i * width, width));
        if (!number || *number < INT32_MIN || *number > INT32_MAX) return wrong(key, "an array of 32-bit integers");
        out.push_back(static_cast<int32_t>(*number));
    }
    return out;
}

Result<std::vector<float>> GgufFile::reals(std::string_view key, size_t count_max) const {
    RONDO_ASSIGN(const GgufValue* value, array(key, count_max));
    std::vector<float> out;
    if (value == nullptr) return out;
    if (value->element != GgufType::f32) return wrong(key, "an array of 32-bit floats");
    out.resize(value->count);
    if (!out.empty()) std::memcpy(out.data(), value->bytes.data(), value->bytes.size());
    return out;
}

}  // namespace rondo
