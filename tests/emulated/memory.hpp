#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace rondo::emulated {

/// The GPU's memory is the host's, filled with NaN when it is allocated. Behind each allocation lies a guard of the
/// same bytes, so who reads beyond the end gets NaN and who writes there is found out.
void* allocate(size_t bytes);  ///< null when the emulated GPU has not as much left
bool free_memory(void* data);  ///< false when nothing begins there
size_t memory_bytes();
size_t memory_bytes_free();

/// Bytes from `pointer` to the end of the allocation that holds it; none where it is the host's own memory.
std::optional<size_t> bytes_left_at(const void* pointer);
/// In one line, which allocation somebody wrote beyond; and mends it.
std::optional<std::string> broken_guard();

}  // namespace rondo::emulated
