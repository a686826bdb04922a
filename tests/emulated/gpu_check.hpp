#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/model/model_bytes.hpp"

/// tools/gpu_check.sh as its tests run it, with programs of shell that end as they are told.
namespace rondo::testing {

namespace fs = std::filesystem;

class GpuCheckRun : public ::testing::Test {
protected:
    GpuCheckRun() {
        ::unsetenv("GTEST_OUTPUT");  // a test that runs in a test writes no report
        ::unsetenv("RONDO_GOLDEN_MODELS");
    }

    static constexpr const char* passes = "echo '[==========] 1 test ran.'; echo '[  PASSED  ] 1 test.'";

    fs::path folder() const { return folder_.path(); }

    void write_program(const fs::path& at, const std::string& script) {
        fs::create_directories(at.parent_path());
        std::ofstream(at) << "#!/bin/bash\n" << script << "\n";
        fs::permissions(at, fs::perms::owner_all);
    }

    /// Runs it in `where` and gives its status; `output` holds all that it said.
    int shell(const std::string& command, const fs::path& where) {
        const fs::path log = folder() / "log";
        const std::string all = "cd '" + where.string() + "' && { " + command + "; } >'" + log.string() + "' 2>&1";
        const int status = std::system(all.c_str());
        std::ostringstream text;
        text << std::ifstream(log).rdbuf();
        output = text.str();
        fs::remove(log);
        return WEXITSTATUS(status);
    }

    static nlohmann::json read_json(const fs::path& file) {
        std::ifstream in(file);
        return in ? nlohmann::json::parse(in) : nlohmann::json();
    }

    /// The last of this name.
    static nlohmann::json item_of(const nlohmann::json& results, const std::string& name) {
        nlohmann::json found = {{"status", "no such item"}};
        for (const nlohmann::json& one : results) {
            if (one.at("item") == name) found = one;
        }
        return found;
    }

    std::string output;

private:
    TemporaryFolder folder_;
};

}  // namespace rondo::testing
