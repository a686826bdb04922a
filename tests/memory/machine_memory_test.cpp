#include "memory/machine_memory.hpp"

#include <gtest/gtest.h>

#include "config/control_groups.hpp"

namespace rondo {
namespace {

TEST(MachineMemory, IsThere) {
    EXPECT_GT(machine_memory_bytes(), size_t{64} << 20);
    EXPECT_LT(machine_memory_bytes(), size_t{1} << 50);
    EXPECT_LE(machine_memory_bytes(), ControlGroups().memory_bytes());
}

}  // namespace
}  // namespace rondo
