#include <signal.h>

#include <fstream>
#include <thread>

#include "tests/cli/rondo_process.hpp"

namespace rondo {
namespace {

using testing::run_rondo;

/// Blocks SIGTERM, as a server does that will hear it when it has started; or is gone.
bool will_hear(pid_t process) {
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("State:\tZ")) return true;
        if (line.starts_with("SigBlk:")) return (std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1) & 1) != 0;
    }
    return true;
}

TEST(Serve, RunsOnTheDeviceOfTheCommandLine) {
    const auto outcome = run_rondo({"serve", "--port", "0", "--device", "cpu", "--threads", "3"}, "", [](pid_t child) {
        while (!will_hear(child)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ::kill(child, SIGTERM);
    });
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_THAT(outcome.out, ::testing::HasSubstr("cpu (3 threads"));
}

}  // namespace
}  // namespace rondo
