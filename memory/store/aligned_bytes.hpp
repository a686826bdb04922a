#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include "memory/store/disk_queue.hpp"

namespace rondo {

/// Memory that a disk may be read into and written from past the kernel's cache; zero at first, so that what is written
/// as padding tells nothing. Much of it lies in huge pages: taking small ones costs as long as reading into them.
class AlignedBytes {
public:
    AlignedBytes() = default;
    explicit AlignedBytes(size_t size) : AlignedBytes(unwritten(size)) {
        std::fill_n(bytes_.get(), size, std::byte{0});
    }
    /// For reading into: nobody knows what is in it.
    static AlignedBytes unwritten(size_t size) {
        AlignedBytes made;
        const size_t alignment = size < huge_page ? disk_alignment : huge_page;
        made.bytes_ = {static_cast<std::byte*>(::operator new(size, std::align_val_t(alignment))), Free{alignment}};
        made.size_ = size;
        if (size >= huge_page) madvise(made.data(), size, MADV_HUGEPAGE);  // where that cannot be, small ones do
        return made;
    }

    std::byte* data() const { return bytes_.get(); }
    size_t size() const { return size_; }
    std::byte& operator[](size_t i) const { return bytes_.get()[i]; }
    std::span<std::byte> span() const { return {bytes_.get(), size_}; }

private:
    static constexpr size_t huge_page = size_t{2} << 20;
    struct Free {
        size_t alignment;
        void operator()(std::byte* bytes) const { ::operator delete(bytes, std::align_val_t(alignment)); }
    };
    std::unique_ptr<std::byte, Free> bytes_{nullptr, Free{disk_alignment}};
    size_t size_ = 0;
};

}  // namespace rondo
