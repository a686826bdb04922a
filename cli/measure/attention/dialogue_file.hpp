#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/measure/attention/dialogue.hpp"
#include "config/result.hpp"

namespace rondo::cli::attention {

/// Bounds on a file of dialogues.
inline constexpr size_t dialogue_file_bytes_max = size_t{64} << 20, file_dialogues_max = 10'000;

/// A file with one dialogue a line (cli/measure/attention/README.md has the format). Errors name file and line.
Result<std::vector<Dialogue>> parse_dialogues(std::string_view text, const std::string& file);

}  // namespace rondo::cli::attention
