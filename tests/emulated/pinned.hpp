#pragma once

#include <cstddef>

namespace rondo::emulated {

/// Host memory that the emulated GPU copies from and to when the stream gets there: who writes it before, or reads it
/// before, is found out as on a real one.
void* allocate_pinned(size_t bytes);
bool free_pinned(void* data);  ///< false when nothing begins there
bool is_pinned(const void* pointer, size_t bytes);

}  // namespace rondo::emulated
