#include "config/control_groups.hpp"

#include <gtest/gtest.h>

#include <climits>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "tests/folder.hpp"

namespace rondo {
namespace {

class ControlGroupsTest : public ::testing::Test {
protected:
    void write(const std::string& file, const std::string& text) {
        const std::filesystem::path path = root_ + file;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }
    /// A limit's file.
    void limit(const std::string& file, const std::string& text) { write("/sys/fs/cgroup" + file, text); }
    ControlGroups in(const std::string& groups) {
        write("/proc/self/cgroup", groups);
        return ControlGroups(root_);
    }

    const testing::Folder folder_;
    const std::string root_ = folder_.path();
};

TEST_F(ControlGroupsTest, MemoryIsTheLeastOfAGroupAndThoseAroundIt) {
    limit("/a/b/memory.max", "max\n");
    EXPECT_EQ(in("0::/a/b\n").memory_bytes(), SIZE_MAX);
    limit("/a/memory.max", "4096000\n");
    EXPECT_EQ(in("0::/a/b\n").memory_bytes(), 4096000U);
    limit("/memory.max", "8192000\n");
    EXPECT_EQ(in("0::/a/b\n").memory_bytes(), 4096000U);
    EXPECT_EQ(in("0::/\n").memory_bytes(), 8192000U);
    limit("/a/b/memory.max", "1024\n");
    EXPECT_EQ(in("0::/a/b\n").memory_bytes(), 1024U);
    EXPECT_EQ(in("0::/a/c\n").memory_bytes(), 4096000U);
}

TEST_F(ControlGroupsTest, MemoryIsLimitedInTheFirstVersionToo) {
    limit("/memory/docker/x/memory.limit_in_bytes", "5000\n");
    EXPECT_EQ(in("9:cpu,cpuacct:/y\n7:memory:/docker/x\n0::/\n").memory_bytes(), 5000U);
    EXPECT_EQ(in("7:memory:/other\n").memory_bytes(), SIZE_MAX);
}

TEST_F(ControlGroupsTest, CoresAreTheLeastQuotaRoundedUp) {
    limit("/a/b/cpu.max", "max 100000\n");
    EXPECT_EQ(in("0::/a/b\n").cores(), INT_MAX);
    limit("/a/cpu.max", "200000 100000\n");
    EXPECT_EQ(in("0::/a/b\n").cores(), 2);
    limit("/a/b/cpu.max", "350000 100000\n");
    EXPECT_EQ(in("0::/a/b\n").cores(), 2) << "a group around it allows less";
    limit("/a/b/cpu.max", "100001 100000\n");
    EXPECT_EQ(in("0::/a/b\n").cores(), 2);
    limit("/a/b/cpu.max", "100000 100000\n");
    EXPECT_EQ(in("0::/a/b\n").cores(), 1);
    limit("/a/b/cpu.max", "1000 100000\n");
    EXPECT_EQ(in("0::/a/b\n").cores(), 1);
    EXPECT_EQ(in("0::/other\n").cores(), INT_MAX);
    limit("/cpu.max", "300000 50000\n");
    EXPECT_EQ(in("0::/other\n").cores(), 6);
}

TEST_F(ControlGroupsTest, CoresAreLimitedInTheFirstVersionToo) {
    for (const std::string mount : {"cpu", "cpu,cpuacct"}) {
        limit("/" + mount + "/docker/x/cpu.cfs_quota_us", "-1\n");
        limit("/" + mount + "/docker/x/cpu.cfs_period_us", "100000\n");
        const std::string groups = "7:memory:/docker/x\n4:" + mount + ":/docker/x\n0::/\n";
        EXPECT_EQ(in(groups).cores(), INT_MAX);
        limit("/" + mount + "/docker/cpu.cfs_quota_us", "250000\n");
        EXPECT_EQ(in(groups).cores(), INT_MAX) << "a quota without a period";
        limit("/" + mount + "/docker/cpu.cfs_period_us", "100000\n");
        EXPECT_EQ(in(groups).cores(), 3);
        EXPECT_EQ(in("4:cpuset:/docker/x\n").cores(), INT_MAX);
        std::filesystem::remove_all(root_ + "/sys");
    }
    limit("/cpu/cpu.cfs_quota_us", "150000\n");
    limit("/cpu/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(in("4:cpu,cpuacct:/docker/x\n").cores(), 2) << "the group's own folder is not to be seen in a container";
}

TEST_F(ControlGroupsTest, LimitNothingWhereTheyCannotBeRead) {
    limit("/a/memory.max", "many\n");
    limit("/a/cpu.max", "many 100000\n");
    limit("/b/cpu.max", "100000\n");
    limit("/c/cpu.max", "100000 0\n");
    limit("/d/cpu.max", "-5 100000\n");
    limit("/e/cpu.max", "9223372036854775807 1\n");
    for (const char* groups :
         {"", "\n", "0", "0:", "0::", "::::", "0::/a", "0::/b", "0::/c", "0::/d", "0::/e", "0::/none", "0::relative"}) {
        EXPECT_EQ(in(groups).memory_bytes(), SIZE_MAX) << groups;
        EXPECT_EQ(in(groups).cores(), INT_MAX) << groups;
    }
    EXPECT_EQ(ControlGroups(root_ + "/nothing").cores(), INT_MAX);
    EXPECT_EQ(ControlGroups(root_ + "/nothing").memory_bytes(), SIZE_MAX);
}

TEST(ControlGroupsHere, AllowACore) {
    EXPECT_GE(ControlGroups().cores(), 1);
}

}  // namespace
}  // namespace rondo
