#pragma once

#include <malloc.h>

#include <cstddef>

namespace rondo::test {

/// What else a call may leave there: large memory begins at a huge page, and small memory grows.
inline constexpr size_t heap_slack_bytes = size_t{4} << 20;

/// What the process holds on its heap, in all. Sanitizers have heaps of their own: there it hardly changes.
inline size_t heap_bytes() {
    const struct mallinfo2 heap = ::mallinfo2();
    return heap.uordblks + heap.hblkhd;
}

}  // namespace rondo::test
