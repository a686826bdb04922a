#include "memory/machine_memory.hpp"

#include <unistd.h>

#include <algorithm>

#include "config/control_groups.hpp"

namespace rondo {

size_t machine_memory_bytes() {
    const auto machine = static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    return std::min(machine, ControlGroups().memory_bytes());
}

}  // namespace rondo
