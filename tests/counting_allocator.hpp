#pragma once

#include <cstdint>

namespace rondo::testing {

/// Calls of operator new so far on this thread, for tests that say "allocates nothing". A folder's tests have it by a
/// file that includes counting_allocator.cpp, which replaces the operators for that binary.
int64_t allocations();

/// The most bytes that operator new had given at once on this thread since `begin_peak`, without those from before it.
void begin_peak();
int64_t peak_bytes();

}  // namespace rondo::testing
