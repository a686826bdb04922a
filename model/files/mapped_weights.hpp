#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/result.hpp"
#include "model/files/mapped_file.hpp"
#include "model/files/weights_file.hpp"

namespace rondo {

/// Weights that lie in mapped files, whichever their format. Takes over the files and the tensors found in them; two
/// tensors of one name are an error. Immutable, safe to share between threads.
Result<std::unique_ptr<WeightsFile>> make_mapped_weights(std::vector<MappedFile> files, std::vector<FileTensor> tensors,
                                                         const std::string& where);

}  // namespace rondo
