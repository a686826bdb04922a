#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"

namespace rondo {

/// One entry of a safetensors header, as written: nothing about it is checked against the file yet.
struct SafetensorsEntry {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;
    uint64_t begin = 0;  ///< of its bytes, counted from the end of the header
    uint64_t end = 0;
};

/// Reads the JSON of a header while it is parsed, without building a tree, so that memory stays in proportion to
/// the entries. The grammar is exactly the format's: anything else in it is an error.
Result<std::vector<SafetensorsEntry>> read_safetensors_header(std::string_view json, const std::string& where);

}  // namespace rondo
