#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "config/result.hpp"

namespace rondo {

/// A file's bytes, mapped read-only and paged in on demand; unmapped when destroyed. Moving keeps the addresses. The
/// file must not shrink while it is mapped (a model that is replaced should be written beside the old one and renamed).
class MappedFile {
public:
    /// `name` stands for the file in errors.
    static Result<MappedFile> open(const std::filesystem::path& path, const std::string& name);
    /// The same view of bytes that someone else owns and keeps: for tests and fuzzing.
    static MappedFile over(std::span<const std::byte> bytes);

    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    ~MappedFile();

    std::span<const std::byte> bytes() const { return bytes_; }
    bool contains(std::span<const std::byte> part) const;
    /// Starts reading these bytes from the disk. A hint: failure has no consequence.
    void will_need(std::span<const std::byte> part) const;
    /// Drops the pages that lie wholly inside `part` from this process; they would be read again if touched.
    void done_with(std::span<const std::byte> part) const;

private:
    MappedFile(std::span<const std::byte> bytes, bool mapped) : bytes_(bytes), mapped_(mapped) {}

    std::span<const std::byte> bytes_;
    bool mapped_ = false;
};

/// A whole text file, refused before it is read if it is longer than `bytes_max`. It is read and not mapped, so that a
/// file that somebody cuts meanwhile gives a short text, not SIGBUS.
Result<std::string> read_text_file(const std::filesystem::path& path, const std::string& name, size_t bytes_max);

}  // namespace rondo
