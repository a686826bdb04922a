#pragma once

#include <string>

#include "config/result.hpp"
#include "memory/store/key_file.hpp"
#include "memory/store/store_folder.hpp"
#include "memory/store/store_keys.hpp"

namespace rondo {

/// The key of a store's folder: 32 random bytes from which all of its secrets come. It lies in the folder, sealed by a
/// key of the operator's file. So that one may change, and nothing but these bytes is sealed anew.
struct FolderKey {
    static constexpr const char* file_name = "sealed-key";

    /// For whoever has the folder's manifest open, and so is alone here. The key is made where there is none; one that
    /// a further line of the file opens is sealed anew under the first. What no line opens, or is damaged, is an error,
    /// and stays as it is.
    static Result<FolderKey> open(const StoreFolder& folder, const KeyFile& file);
    /// Of a folder that has one, and changes nothing.
    static Result<StoreKeys> read(const StoreFolder& folder, const KeyFile& file);

    StoreKeys keys;
    bool made = false;  ///< there was none
    std::string note;   ///< a line for the operator; "": there is nothing to say
};

}  // namespace rondo
