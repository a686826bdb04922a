#include "tests/counting_allocator.hpp"

#include <cstdlib>
#include <new>

// Not in a header: the compiler must not see through the replaced operators in the tests.

namespace {
thread_local int64_t count = 0;
}

int64_t rondo::testing::allocations() {
    return count;
}

// Aligned forms are left alone: they come in pairs of their own.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
    ++count;
    return std::malloc(bytes);
}
void* operator new(size_t bytes) {
    if (void* data = operator new(bytes, std::nothrow)) return data;
    throw std::bad_alloc();
}
void operator delete(void* data) noexcept {
    std::free(data);
}
void operator delete(void* data, size_t) noexcept {
    std::free(data);
}
