#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/model/model_bytes.hpp"

/// tools/gpu_check.sh, with programs of shell that end as told, and once with those of the emulator.
namespace rondo {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::TemporaryFolder;

class GpuCheck : public ::testing::Test {
protected:
    GpuCheck() {
        ::unsetenv("GTEST_OUTPUT");  // a test that runs in a test writes no report
        write_program("rondo", "echo '{\"ids\":[1,2],\"tokens_per_s\":7.5}'");
        write_program("tests_emulated", "echo '[==========] 1 test ran.'; echo '[  PASSED  ] 1 test.'");
    }

    void write_program(const std::string& name, const std::string& script) {
        folder_.write(name, "#!/bin/bash\n" + script + "\n");
        fs::permissions(folder_.path() / name, fs::perms::owner_all);
    }

    /// The exit status; `results` is what the file then holds.
    int check(const std::string& arguments, std::string programs = "") {
        if (programs.empty()) programs = folder_.path().string();
        const std::string command = RONDO_SOURCE_DIR "/tools/gpu_check.sh " + arguments + " --programs " + programs +
                                    " --out " + file() + " >" + file() + ".log 2>&1";
        const int status = std::system(command.c_str());
        std::ifstream in(file());
        if (in) results_ = json::parse(in);
        return WEXITSTATUS(status);
    }

    std::string file() const { return (folder_.path() / "results.json").string(); }

    json item(const std::string& name) const {
        for (const json& one : results_) {
            if (one.at("item") == name) return one;
        }
        return {{"status", "no such item"}};
    }

    TemporaryFolder folder_;
    json results_;
};

TEST_F(GpuCheck, AppendsEachItemOfEachRunToOneFile) {
    EXPECT_EQ(check("primitives"), 0);
    ASSERT_EQ(results_.size(), 1U);
    EXPECT_EQ(results_[0].at("status"), "passed");
    EXPECT_EQ(results_[0].at("passed"), 1);
    EXPECT_EQ(check("ops"), 0);
    EXPECT_EQ(results_.size(), 11U);
    EXPECT_EQ(results_[0].at("stage"), "primitives");
    EXPECT_EQ(results_[10].at("item"), "Attend");
}

TEST_F(GpuCheck, AFailureOrACrashStopsNothingAndItsEndIsKept) {
    write_program("tests_emulated",
                  "case $1 in *Embed*) echo 'it is \"wrong\"'; exit 1;; *Kv*) kill -SEGV $$;; esac\n"
                  "echo '[==========] 1 test ran.'; echo '[  PASSED  ] 1 test.'");
    EXPECT_EQ(check("ops"), 1);
    EXPECT_EQ(item("Embed").at("status"), "failed");
    EXPECT_EQ(item("Embed").at("output"), "it is \"wrong\"");
    EXPECT_EQ(item("Kv").at("status"), "failed");
    EXPECT_EQ(item("Attend").at("status"), "passed");
}

TEST_F(GpuCheck, WhatHangsIsEndedAndWhatNoLongerFitsIsLeftOut) {
    write_program("tests_emulated",
                  "case $1 in *CudaDevice*) sleep 60;; esac\n"
                  "echo '[==========] 1 test ran.'; echo '[  PASSED  ] 1 test.'");
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(check("ops --limit 2"), 1);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
    EXPECT_EQ(item("device").at("status"), "timed out");
    EXPECT_EQ(item("Attend").at("status"), "left out");
    EXPECT_EQ(results_.size(), 10U);
}

TEST_F(GpuCheck, TestsThatRanNowhereDoNotCountAsPassed) {
    write_program("tests_emulated",
                  "echo '[==========] 2 tests ran.'; echo '[  PASSED  ] 0 tests.';"
                  "echo '[  SKIPPED ] 2 tests, listed below:'");
    EXPECT_EQ(check("primitives"), 1);
    EXPECT_EQ(item("primitives").at("status"), "skipped");
    write_program("tests_emulated", "echo '[==========] 0 tests ran.'; echo '[  PASSED  ] 0 tests.'");
    fs::remove(file());
    EXPECT_EQ(check("primitives"), 1);
    EXPECT_EQ(item("primitives").at("status"), "failed");
}

TEST_F(GpuCheck, KeepsWhatABenchmarkReports) {
    EXPECT_EQ(check("bench"), 0);
    EXPECT_EQ(item("decode, demo").at("result").at("tokens_per_s"), 7.5);
}

TEST_F(GpuCheck, OtherTokensThanTheCpusAreAFailure) {
    EXPECT_EQ(check("models"), 0);
    write_program("rondo", "case \"$*\" in *cuda*) echo '{\"ids\":[1,3]}';; *) echo '{\"ids\":[1,2]}';; esac");
    fs::remove(file());
    EXPECT_EQ(check("models"), 1);
    EXPECT_EQ(item("generate").at("status"), "failed");
    EXPECT_EQ(item("golden").at("status"), "passed");
}

TEST_F(GpuCheck, RefusesWhatItDoesNotKnowInOneLine) {
    for (const char* wrong : {"everything", "ops --limit 0", "ops --limit x", "ops --limit", "ops --fast 1"}) {
        EXPECT_EQ(check(wrong), 2) << wrong;
        EXPECT_FALSE(fs::exists(file())) << wrong;
    }
    EXPECT_EQ(check("ops", "/nowhere"), 2);
    folder_.write("results.json", "not of this program\n");
    const std::string command = RONDO_SOURCE_DIR "/tools/gpu_check.sh ops --programs " + folder_.path().string() +
                                " --out " + file() + " 2>/dev/null";
    EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 2);
}

TEST_F(GpuCheck, RehearsesOnTheEmulator) {
    const std::string programs = RONDO_BINARY_DIR "/bin";
    EXPECT_EQ(check("primitives", programs), 0) << results_.dump(1);
    EXPECT_GE(item("primitives").at("passed"), 10);
    EXPECT_EQ(item("primitives").at("gpu"), "emulated");
}

}  // namespace
}  // namespace rondo
