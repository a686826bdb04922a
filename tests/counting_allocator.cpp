#include "tests/counting_allocator.hpp"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>

// Not in a header: the compiler must not see through the replaced operators in the tests.

namespace {
thread_local int64_t count = 0, held = 0, peak = 0;
}

int64_t rondo::testing::allocations() {
    return count;
}

void rondo::testing::begin_peak() {
    held = peak = 0;
}

int64_t rondo::testing::peak_bytes() {
    return peak;
}

// Aligned forms are left alone: they come in pairs of their own.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
    ++count;
    void* const data = std::malloc(bytes);
    held += static_cast<int64_t>(malloc_usable_size(data));
    peak = std::max(peak, held);
    return data;
}
void* operator new(size_t bytes) {
    if (void* data = operator new(bytes, std::nothrow)) return data;
    throw std::bad_alloc();
}
void operator delete(void* data) noexcept {
    held -= static_cast<int64_t>(malloc_usable_size(data));
    std::free(data);
}
void operator delete(void* data, size_t) noexcept {
    operator delete(data);
}
