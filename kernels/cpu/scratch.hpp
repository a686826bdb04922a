#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace rondo::cpu {

/// What an op keeps of a scratch whose size grows with the context.
inline constexpr size_t scratch_kept_bytes = size_t{64} << 20;

/// Memory of one thread (or of one call at a time) that is reused from op to op. The address space that decoding needs
/// is reserved at the start, and its pages come with use, so that a decode loop never allocates. A larger request
/// doubles it. Contents do not survive the next `get`.
class Scratch {
public:
    /// Huge pages are for what is written from end to end: elsewhere a first row would take 2 MiB.
    enum class Pages : uint8_t { small, huge };

    Scratch() : Scratch(Pages::small) {}
    explicit Scratch(Pages pages) : pages_(pages) { grow(size_t{1} << 20); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() { std::free(data_); }

    /// At least `bytes`, 64-byte aligned.
    template <class T = std::byte>
    T* get(size_t bytes) {
        if (bytes > bytes_) grow(bytes);
        return reinterpret_cast<T*>(data_);
    }

    /// Frees it where it is larger than what an op keeps: one long context would hold its memory for ever.
    void give_back() {
        if (bytes_ <= scratch_kept_bytes) return;
        std::free(data_);
        data_ = nullptr;
        bytes_ = 0;
    }

private:
    static constexpr size_t huge_page = size_t{2} << 20;

    void grow(size_t bytes) {
        bytes = std::max(bytes, 2 * bytes_);
        const size_t page = pages_ == Pages::huge && bytes >= 4 * huge_page ? huge_page : 4096;
        bytes = (bytes + page - 1) / page * page;
        void* const data = std::aligned_alloc(page, bytes);
        if (data == nullptr) throw std::bad_alloc();
        if (page == huge_page) madvise(data, bytes, MADV_HUGEPAGE);  // where that cannot be, small ones do
        std::free(data_);
        data_ = data;
        bytes_ = bytes;
    }

    Pages pages_;
    void* data_ = nullptr;
    size_t bytes_ = 0;
};

}  // namespace rondo::cpu
