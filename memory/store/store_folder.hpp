#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/result.hpp"

namespace rondo {

/// A folder of this process's user alone. Files in it are opened by name below it, so that nobody can put another
/// folder or a link in their place.
class StoreFolder {
public:
    /// Made where there is none (0700); its name is durable then. Refused: a link, somebody else's, one that others may
    /// look into.
    static Result<StoreFolder> open(const std::string& path);
    /// Opens a folder that must exist already. Refuses the same folders as `open`.
    static Result<StoreFolder> open_existing(std::string path);
    StoreFolder(StoreFolder&& other) noexcept;
    StoreFolder& operator=(StoreFolder&& other) noexcept;
    ~StoreFolder();

    /// Refused where another StoreFolder of this process has claimed it, by whatever path. Held until this ends.
    Status claim();
    /// Absolute: it holds whatever becomes of the process's working directory.
    const std::string& path() const { return path_; }
    /// Its path leads to it: nobody has removed it or put another in its place.
    bool is_there() const;
    /// Opens a regular file of this user's, made (0600) where `flags` say so.
    Result<int> open_file(const std::string& name, int flags) const;
    Status remove(const std::string& name) const;
    /// Whether anything has that name.
    Result<bool> has(const std::string& name) const;
    /// Puts a file with these bytes in the place of what has that name. It is durable when this returns; a crash before
    /// that leaves the old file or the new one, each whole, and perhaps NAME.new, which nobody needs.
    Status replace(const std::string& name, std::span<const std::byte> bytes) const;
    /// What was made and removed stays so when the machine stops.
    Status sync() const;
    /// Names of what is in it, in order.
    Result<std::vector<std::string>> names() const;
    /// Whether its files can be read and written past the kernel's cache, as far as that is known without making one.
    bool has_direct_files() const;
    /// Bytes that this user may still write on its disk.
    Result<uint64_t> bytes_free() const;

private:
    StoreFolder(std::string path, int file) : path_(std::move(path)), file_(file) {}
    /// Its own name stays when the machine stops.
    Status sync_above() const;
    Status write_new(const std::string& name, std::span<const std::byte> bytes) const;

    std::string path_;
    int file_ = -1;
    bool claimed_ = false;
};

}  // namespace rondo
