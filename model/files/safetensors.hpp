#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.hpp"
#include "model/files/weights_file.hpp"

namespace rondo {

/// The tensors of one safetensors file, pointing into `bytes`. Reads the header alone: a cold file is not paged in. The
/// tensors lie side by side without overlap or hole and fill the file, as the format demands. Types other than F32, F16
/// and BF16 are listed as not usable.
Result<std::vector<FileTensor>> parse_safetensors(std::span<const std::byte> bytes, const std::string& where);

/// Shard file → names of its tensors, from a model.safetensors.index.json. File names are plain: no folder in them.
Result<std::map<std::string, std::vector<std::string>>> parse_safetensors_index(std::string_view json,
                                                                                const std::string& where);

/// model.safetensors of a folder, or the shards that its model.safetensors.index.json lists; not_found if it has
/// neither. `name` stands for the folder in errors. The table of a `tied` model has the embedding's name, also where
/// the file has it under the output matrix's alone.
Result<std::unique_ptr<WeightsFile>> open_safetensors(const std::filesystem::path& folder, const std::string& name,
                                                      bool tied = false);

}  // namespace rondo
