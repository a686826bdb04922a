#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

/// Runs build/bin/rondo as a user does.
namespace rondo::testing {

struct Outcome {
    int status = -1;  ///< exit status, or 128 + signal
    std::string out, err;
    double cpu_seconds = 0.0;
    int64_t resident_bytes_max = 0;
};

/// For a child that becomes the program: a minute of CPU time, and two cores of those that this process may use. Left
/// to itself the program takes all there are, and its threads look for work for a moment before they sleep: on many
/// cores together they would soon have used the minute.
void limit_this_child();

/// Waits until the program has ended. It gets `input` on standard input, no terminal anywhere, and a minute of CPU
/// time. `started` hears its process id.
Outcome run_rondo(const std::vector<std::string>& arguments, const std::string& input = "",
                  const std::function<void(pid_t)>& started = {});

/// What --json printed; standard error must be silent and the status 0.
nlohmann::json run_json(std::vector<std::string> arguments, const std::string& input = "");

/// Token ids as an argument: 1,2,3.
std::string joined(const std::vector<int32_t>& ids);

/// An error as users and scripts expect it: this status, nothing on standard output, one line on standard error that
/// holds `words`; at once, and without much memory.
void expect_error(const Outcome& outcome, int status, const std::string& words);
inline void expect_failure(const Outcome& outcome, const std::string& words) {
    expect_error(outcome, 1, words);
}

}  // namespace rondo::testing
