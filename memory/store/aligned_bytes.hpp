#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include "memory/store/disk_queue.hpp"

namespace rondo {

/// Memory that a disk may be read into and written from past the kernel's cache; zero at first, so that what is written
/// as padding tells nothing.
class AlignedBytes {
public:
    AlignedBytes() = default;
    explicit AlignedBytes(size_t size)
        : bytes_(static_cast<std::byte*>(::operator new(size, std::align_val_t(disk_alignment)))), size_(size) {
        std::fill_n(bytes_.get(), size, std::byte{0});
    }

    std::byte* data() const { return bytes_.get(); }
    size_t size() const { return size_; }
    std::byte& operator[](size_t i) const { return bytes_.get()[i]; }
    std::span<std::byte> span() const { return {bytes_.get(), size_}; }

private:
    struct Free {
        void operator()(std::byte* bytes) const { ::operator delete(bytes, std::align_val_t(disk_alignment)); }
    };
    std::unique_ptr<std::byte, Free> bytes_;
    size_t size_ = 0;
};

}  // namespace rondo
