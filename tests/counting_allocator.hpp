#pragma once

#include <cstdint>

namespace rondo::testing {

/// Calls of operator new so far on this thread, for tests that say "allocates nothing". A folder's tests have it by a
/// file that includes counting_allocator.cpp, which replaces the operators for that binary.
int64_t allocations();

}  // namespace rondo::testing
