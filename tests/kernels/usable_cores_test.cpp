#include "kernels/cpu/usable_cores.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "kernels/cpu/cpu_device.hpp"
#include "tests/folder.hpp"

namespace rondo::cpu {
namespace {

TEST(UsableCores, AreCountedOnMachinesOfMoreThanASetHolds) {
    for (const size_t machine : {64U, 1024U, 1025U, 5000U}) {
        const int cores = affinity_cores([&](size_t bytes, cpu_set_t* set) {
            if (bytes * 8 < machine) {
                errno = EINVAL;
                return -1;
            }
            std::memset(set, 0, bytes);
            for (size_t core = 0; core < machine; ++core) CPU_SET_S(core, bytes, set);
            return 0;
        });
        EXPECT_EQ(cores, static_cast<int>(machine));
    }
}

TEST(UsableCores, AreOneWhereNobodyKnows) {
    for (const int why : {EINVAL, EPERM}) {
        EXPECT_EQ(affinity_cores([&](size_t, cpu_set_t*) {
                      errno = why;
                      return -1;
                  }),
                  1);
    }
}

TEST(UsableCores, AreNoMoreThanAQuotaPaysFor) {
    const testing::Folder folder;
    const std::filesystem::path root = folder.path();
    std::filesystem::create_directories(root / "proc/self");
    std::filesystem::create_directories(root / "sys/fs/cgroup");
    std::ofstream(root / "proc/self/cgroup") << "0::/\n";
    const int all = usable_cores(ControlGroups(root));
    EXPECT_GE(all, 1);
    std::ofstream(root / "sys/fs/cgroup/cpu.max") << "50000 100000\n";
    EXPECT_EQ(usable_cores(ControlGroups(root)), 1);
    std::ofstream(root / "sys/fs/cgroup/cpu.max") << "100000000 100000\n";
    EXPECT_EQ(usable_cores(ControlGroups(root)), std::min(all, 1000));
}

TEST(UsableCores, AreTheThreadsOfADeviceThatNamesNone) {
    const auto device = make_cpu_device(0, Bf16Way::floats);
    ASSERT_TRUE(device);
    EXPECT_EQ((*device)->host_threads(), usable_cores());
}

}  // namespace
}  // namespace rondo::cpu
