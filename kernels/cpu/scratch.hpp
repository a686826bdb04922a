#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace rondo::cpu {

/// Memory of one thread (or of one call at a time) that is reused from op to op. The address space that decoding needs
/// is reserved at the start, and its pages come with use, so that a decode loop never allocates. A larger request
/// doubles it. Contents do not survive the next `get`.
class Scratch {
public:
    Scratch() { grow(size_t{1} << 20); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() { std::free(data_); }

    /// At least `bytes`, 64-byte aligned.
    template <class T = std::byte>
    T* get(size_t bytes) {
        if (bytes > bytes_) grow(bytes);
        return reinterpret_cast<T*>(data_);
    }

private:
    void grow(size_t bytes) {
        bytes = (std::max(bytes, 2 * bytes_) + 4095) / 4096 * 4096;
        void* const data = std::aligned_alloc(4096, bytes);
        if (data == nullptr) throw std::bad_alloc();
        std::free(data_);
        data_ = data;
        bytes_ = bytes;
    }

    void* data_ = nullptr;
    size_t bytes_ = 0;
};

}  // namespace rondo::cpu
