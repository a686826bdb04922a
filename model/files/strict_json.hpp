#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "config/limits.hpp"
#include "config/result.hpp"

namespace rondo {

struct JsonBounds {
    size_t bytes_max = limits::config_bytes_max;
    size_t depth_max = limits::json_depth_max;
    size_t values_max = limits::config_values_max;  ///< keeps the tree's memory in proportion to the text
};

/// JSON from outside as a tree: valid UTF-8, no key twice in one object, nothing after it, within the bounds. One byte
/// order mark before it is passed over.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& where, JsonBounds bounds = {});
/// The same, where it must be an object.
Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& where, JsonBounds bounds = {});

/// Reads the members of a JSON object: a wrong type or range is an error that names the key and what it must be.
/// Borrows the object.
class JsonFields {
public:
    /// What a member that is null is to the readers below: absent, or of a wrong type as anything else would be.
    enum class Nulls { absent, refused };

    /// `path` stands before each key in errors ("rope_scaling.").
    JsonFields(const nlohmann::json& object, std::string where, std::string path = "", Nulls nulls = Nulls::absent)
        : object_(&object), where_(std::move(where)), path_(std::move(path)), nulls_(nulls) {}

    /// nullptr when absent or null, whatever nulls are to the others: how a null is read that has a meaning.
    const nlohmann::json* find(std::string_view key) const;
    /// In [least, most]; without a `fallback` the key is required.
    Result<int64_t> integer(std::string_view key, int64_t least, int64_t most,
                            std::optional<int64_t> fallback = std::nullopt) const;
    Result<double> real(std::string_view key, double least, double most,
                        std::optional<double> fallback = std::nullopt) const;
    Result<bool> boolean(std::string_view key, bool fallback) const;
    Result<std::string> text(std::string_view key, std::string fallback) const;

    Error wrong(std::string_view key, std::string_view right) const;

private:
    Error missing(std::string_view key) const;
    /// nullptr when absent, or null and nulls are absent.
    const nlohmann::json* member(std::string_view key) const;

    const nlohmann::json* object_;
    std::string where_;
    std::string path_;
    Nulls nulls_;
};

}  // namespace rondo
