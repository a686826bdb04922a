#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"
#include "model/files/weights_file.hpp"

namespace rondo {

/// Types of metadata values, numbered as in the file.
enum class GgufType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

/// A metadata value where it lies: a scalar's bytes, a string's characters, or an array's elements one after the other.
struct GgufValue {
    GgufType type = GgufType::u8;
    GgufType element = GgufType::u8;  ///< of an array
    uint64_t count = 1;               ///< of an array's elements
    std::span<const std::byte> bytes;
};

/// Whether these bytes claim to be a GGUF file.
bool is_gguf(std::span<const std::byte> bytes);

/// The metadata and the tensor list of a GGUF file (versions 2 and 3, little-endian), checked against the file's size
/// before anything is allocated. Borrows the bytes, of which only the part before the tensors' data is read. Immutable.
class GgufFile {
public:
    static Result<GgufFile> parse(std::span<const std::byte> bytes, const std::string& where);

    /// Under Hugging Face's names and shapes. Types without a DType are listed as not usable.
    const std::vector<FileTensor>& tensors() const { return tensors_; }
    const FileTensor* find_tensor(std::string_view name) const;
    const std::string& where() const { return where_; }
    /// Adds the tensors of another part of a split model; their data stays in that part's bytes.
    void take_tensors(GgufFile part);

    /// nullptr when absent.
    const GgufValue* find(std::string_view key) const;
    /// A wrong type or range is an error that names the key; without a `fallback` the key is required.
    Result<int64_t> integer(std::string_view key, int64_t least, int64_t most,
                            std::optional<int64_t> fallback = std::nullopt) const;
    Result<double> real(std::string_view key, double least, double most,
                        std::optional<double> fallback = std::nullopt) const;
    Result<bool> boolean(std::string_view key, bool fallback) const;
    Result<std::string> text(std::string_view key, size_t bytes_max, std::string fallback) const;
    /// Arrays; empty when absent.
    Result<std::vector<std::string>> texts(std::string_view key, size_t count_max) const;
    Result<std::vector<int32_t>> integers(std::string_view key, size_t count_max) const;
    Result<std::vector<float>> reals(std::string_view key, size_t count_max) const;

private:
    friend class GgufParser;
    Error wrong(std::string_view key, const std::string& right) const;
    Result<const GgufValue*> array(std::string_view key, size_t count_max) const;

    std::string where_;
    std::map<std::string_view, GgufValue> metadata_;
    std::vector<FileTensor> tensors_;
};

}  // namespace rondo
