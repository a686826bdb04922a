#pragma once

#include <cstddef>

namespace rondo {

/// How much memory this process may have: the machine's, or less where a control group says so (a container).
size_t machine_memory_bytes();

}  // namespace rondo
