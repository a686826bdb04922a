#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "config/result.hpp"

namespace rondo {

/// What people give for a model and cannot be read: each error names what it is and says what to do instead. `where`
/// is the path as the error shows it.

/// Refuses bytes that are no file's content: an empty file, a Git LFS pointer.
Status check_downloaded(std::span<const std::byte> bytes, const std::string& where);

/// For a path where no file was found: the reason, if it is a link.
std::optional<Error> link_to_nowhere(const std::filesystem::path& path);

/// For a path that could not be opened: what else it may have been meant as (a name on a hub, a URL, a link that
/// leads nowhere), or `cause`.
Error no_such_model(const std::filesystem::path& path, const Error& cause);

/// For a file that is not GGUF, by its first bytes and its name's ending.
Error not_a_model_file(const std::filesystem::path& path, std::span<const std::byte> bytes, const std::string& where);

/// For a folder without config.json, or with a link of that name that leads nowhere.
Error no_config(const std::filesystem::path& folder, const std::string& where);

/// For a folder without the safetensors files that are read: weights of another kind that it has, or a link
/// to weights that leads nowhere, if any.
std::optional<Error> other_weights(const std::filesystem::path& folder, const std::string& where);

}  // namespace rondo
