#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>

#include "config/result.hpp"
#include "memory/store/disk_queue.hpp"

/// A folder, and memory that a disk may be written from, for tests of the store.
namespace rondo::testing {

/// Closed to others, and gone with its contents at the end.
class Folder {
public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "rondo-store-XXXXXX").string();
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
        path_ = name;
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

/// Zeroed, and aligned for O_DIRECT.
class AlignedBytes {
public:
    explicit AlignedBytes(size_t size)
        : bytes_(static_cast<std::byte*>(::operator new(size, std::align_val_t(disk_alignment)))), size_(size) {
        std::fill_n(bytes_.get(), size_, std::byte{0});
    }
    std::byte* data() { return bytes_.get(); }
    size_t size() const { return size_; }
    std::byte& operator[](size_t i) { return bytes_.get()[i]; }
    std::span<std::byte> span() { return {bytes_.get(), size_}; }

private:
    struct Free {
        void operator()(std::byte* bytes) const { ::operator delete(bytes, std::align_val_t(disk_alignment)); }
    };
    std::unique_ptr<std::byte, Free> bytes_;
    size_t size_;
};

}  // namespace rondo::testing
