#include "memory/machine_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "tests/folder.hpp"

namespace rondo {
namespace {

class ControlGroups : public ::testing::Test {
protected:
    void write(const std::string& file, const std::string& text) {
        const std::filesystem::path path = root_ + file;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }

    const testing::Folder folder_;
    const std::string root_ = folder_.path();
};

TEST_F(ControlGroups, LimitByTheLeastOfAGroupAndThoseAroundIt) {
    write("/a/b/memory.max", "max\n");
    EXPECT_EQ(control_group_limit("0::/a/b\n", root_), SIZE_MAX);
    write("/a/memory.max", "4096000\n");
    EXPECT_EQ(control_group_limit("0::/a/b\n", root_), 4096000U);
    write("/memory.max", "8192000\n");
    EXPECT_EQ(control_group_limit("0::/a/b\n", root_), 4096000U);
    EXPECT_EQ(control_group_limit("0::/\n", root_), 8192000U);
    write("/a/b/memory.max", "1024\n");
    EXPECT_EQ(control_group_limit("0::/a/b\n", root_), 1024U);
    EXPECT_EQ(control_group_limit("0::/a/c\n", root_), 4096000U);
}

TEST_F(ControlGroups, LimitInTheirFirstVersionToo) {
    write("/memory/docker/x/memory.limit_in_bytes", "5000\n");
    EXPECT_EQ(control_group_limit("9:cpu,cpuacct:/y\n7:memory:/docker/x\n0::/\n", root_), 5000U);
    EXPECT_EQ(control_group_limit("7:memory:/other\n", root_), SIZE_MAX);
}

TEST_F(ControlGroups, LimitNothingWhereTheyCannotBeRead) {
    write("/a/memory.max", "many\n");
    for (const char* groups : {"", "\n", "0", "0:", "0::", "::::", "0::/a", "0::/none", "0::relative"})
        EXPECT_EQ(control_group_limit(groups, root_), SIZE_MAX) << groups;
}

TEST(MachineMemory, IsThere) {
    EXPECT_GT(machine_memory_bytes(), size_t{64} << 20);
    EXPECT_LT(machine_memory_bytes(), size_t{1} << 50);
}

}  // namespace
}  // namespace rondo
