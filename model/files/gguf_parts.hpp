#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"
#include "model/files/gguf.hpp"
#include "model/files/mapped_file.hpp"

namespace rondo {

/// The name of one file of a split model: STEM-00002-of-00003.gguf.
struct GgufPartName {
    std::string stem;
    int64_t number = 1;  ///< from 1
    int64_t count = 1;

    std::string file_name(int64_t part) const;
};

/// Nothing when the name is not of that form.
std::optional<GgufPartName> gguf_part_name(std::string_view file_name);

/// A GGUF model's files, each mapped, under one list of tensors; the metadata is the first file's.
struct GgufParts {
    GgufFile whole;
    std::vector<MappedFile> files;
};

/// Opens what belongs to a GGUF file: itself, or all parts of the split model that it is any part of. They lie beside
/// it and are found by their names; each must say the number that its name says. `file` is `path`, already open. With
/// `metadata_alone` the other parts' tensors are left out, and but the first part none need be there.
Result<GgufParts> open_gguf_parts(const std::filesystem::path& path, MappedFile file, bool metadata_alone);

}  // namespace rondo
