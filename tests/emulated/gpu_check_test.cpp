#include "tests/emulated/gpu_check.hpp"

#include <chrono>

/// tools/gpu_check.sh: its items, their limits and its file.
namespace rondo {
namespace {

using nlohmann::json;
using testing::GpuCheckRun;
namespace fs = std::filesystem;

class GpuCheck : public GpuCheckRun {
protected:
    GpuCheck() {
        write_program(programs() / "rondo", "echo '{\"ids\":[1,2],\"tokens_per_s\":7.5}'");
        write_tests(passes);
    }

    void write_tests(const std::string& script) { write_program(programs() / "tests_emulated", script); }

    fs::path programs() const { return folder() / "the programs"; }
    fs::path file() const { return folder() / "the results.json"; }

    static std::string command(const std::string& arguments, const fs::path& programs, const fs::path& file) {
        return RONDO_SOURCE_DIR "/tools/gpu_check.sh " + arguments + " --programs '" + programs.string() + "' --out '" +
               file.string() + "'";
    }

    /// The exit status; `results` is what the file then holds.
    int check(const std::string& arguments, const fs::path& programs) {
        const int status = shell(command(arguments, programs, file()), folder());
        results_ = read_json(file());
        return status;
    }
    int check(const std::string& arguments) { return check(arguments, programs()); }

    json item(const std::string& name) const { return item_of(results_, name); }

    json results_;
};

TEST_F(GpuCheck, AppendsEachItemOfEachRunToOneFile) {
    EXPECT_EQ(check("primitives"), 0) << output;
    ASSERT_EQ(results_.size(), 1U);
    EXPECT_EQ(results_[0].at("status"), "passed");
    EXPECT_EQ(results_[0].at("passed"), 1);
    EXPECT_EQ(check("ops"), 0);
    EXPECT_EQ(results_.size(), 11U);
    EXPECT_EQ(results_[0].at("stage"), "primitives");
    EXPECT_EQ(results_[10].at("item"), "Attend");
}

/// Longer than the others, as are some below: `make check` runs them (tests.cmake).
TEST_F(GpuCheck, TheFileIsWholeAfterEachItem) {
    const std::string results = "'" + file().string() + "'";
    write_tests("[ ! -e " + results + " ] || cp " + results + " " + results + ".before.$$; " + passes);
    EXPECT_EQ(check("ops"), 0);
    std::vector<size_t> sizes;
    for (const auto& entry : fs::directory_iterator(folder())) {
        if (entry.path().string().find(".before.") != std::string::npos) {
            sizes.push_back(read_json(entry.path()).size());
        }
    }
    EXPECT_THAT(sizes, ::testing::UnorderedElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST_F(GpuCheck, TwoRunsAtOnceLoseNothing) {
    const std::string run = command("ops", programs(), file());
    EXPECT_EQ(shell(run + " & " + run + " & wait", folder()), 0);
    EXPECT_EQ(read_json(file()).size(), 20U) << output;
}

TEST_F(GpuCheck, AFailureOrACrashStopsNothingAndItsEndIsKept) {
    write_tests(
        "case $1 in *Embed*) echo 'it is \"wrong\"'; exit 1;; *Kv*) kill -SEGV $$;; *Matmul*) kill -KILL $$;; esac\n" +
        std::string(passes));
    EXPECT_EQ(check("ops"), 1);
    EXPECT_EQ(item("Embed").at("status"), "failed");
    EXPECT_EQ(item("Embed").at("output"), "it is \"wrong\"");
    EXPECT_EQ(item("Kv").at("status"), "failed");
    EXPECT_EQ(item("Matmul").at("status"), "failed") << "killed long before its limit";
    EXPECT_EQ(item("Attend").at("status"), "passed");
}

TEST_F(GpuCheck, WhatHangsIsEndedAndWhatNoLongerFitsIsLeftOut) {
    write_tests("sleep 60");
    EXPECT_EQ(check("ops --limit 1"), 1);
    EXPECT_EQ(results_.size(), 10U);
    EXPECT_EQ(item("device").at("status"), "timed out");
    EXPECT_LT(item("device").at("seconds"), 20);
    EXPECT_EQ(item("Attend").at("status"), "left out");
}

TEST_F(GpuCheck, EveryStageEndsInItsLimit) {
    write_tests("sleep 60");
    write_program(programs() / "rondo", "sleep 60");
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(check("all --limit 1"), 1);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
    EXPECT_EQ(results_.size(), 21U) << "every item of every stage";
    for (const char* const first : {"primitives", "device", "golden", "prefill, demo"})
        EXPECT_EQ(item(first).at("status"), "timed out") << first;
    for (const char* const rest : {"TakeRows", "Attend", "steps", "generate", "decode, demo"})
        EXPECT_EQ(item(rest).at("status"), "left out") << rest;
}

TEST_F(GpuCheck, WhatDoesNotListenIsKilledWithinTheLimit) {
    write_tests("trap '' TERM; sleep 60; sleep 60");
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(check("primitives --limit 2"), 1);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20));
    EXPECT_EQ(item("primitives").at("status"), "timed out");
    EXPECT_EQ(item("primitives").at("exit"), 137);
}

TEST_F(GpuCheck, TestsThatRanNowhereDoNotCountAsPassed) {
    write_tests(
        "echo '[==========] 2 tests ran.'; echo '[  PASSED  ] 0 tests.';"
        "echo '[  SKIPPED ] 2 tests, listed below:'");
    EXPECT_EQ(check("primitives"), 1);
    EXPECT_EQ(item("primitives").at("status"), "skipped");
    write_tests("echo '[==========] 0 tests ran.'; echo '[  PASSED  ] 0 tests.'");
    EXPECT_EQ(check("primitives"), 1);
    EXPECT_EQ(item("primitives").at("status"), "failed");
}

TEST_F(GpuCheck, KeepsWhatABenchmarkReports) {
    EXPECT_EQ(check("bench"), 0);
    EXPECT_EQ(item("decode, demo").at("result").at("tokens_per_s"), 7.5);
}

TEST_F(GpuCheck, OtherTokensThanTheCpusAreAFailure) {
    EXPECT_EQ(check("models"), 0);
    write_program(programs() / "rondo",
                  "case \"$*\" in *cuda*) echo '{\"ids\":[1,3]}';; *) echo '{\"ids\":[1,2]}';; esac");
    EXPECT_EQ(check("models"), 1);
    EXPECT_EQ(item("generate").at("status"), "failed");
    EXPECT_EQ(item("golden").at("status"), "passed");
}

/// A machine may have several versions of cuBLASLt. A program takes the one that it was built for, and no other.
TEST_F(GpuCheck, FindsTheCublasOfTheProgram) {
    write_program(programs() / "tests_gpu",
                  "# /usr/local/cuda/lib64/libcublasLt.so.99\necho \"path: $LD_LIBRARY_PATH\"; " + std::string(passes));
    write_program(folder() / "found/find",
                  "for version in 99 13 12; do [[ libcublasLt.so.$version == $3 ]] && "
                  "echo /versions/$version/libcublasLt.so.$version; done");
    const std::string path = "PATH='" + (folder() / "found").string() + "':$PATH ";
    EXPECT_EQ(shell(path + command("primitives", programs(), file()), folder()), 0) << output;
    const std::string said = item_of(read_json(file()), "primitives").at("output");
    EXPECT_THAT(said, ::testing::HasSubstr("lib:/versions/99"));
}

TEST_F(GpuCheck, RefusesWhatItDoesNotKnowInOneLine) {
    const auto refuses = [&](const std::string& what, const std::string& arguments, const fs::path& from,
                             const fs::path& to) {
        EXPECT_EQ(shell(command(arguments, from, to), folder()), 2) << what;
        EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << output;
        EXPECT_THAT(output, ::testing::HasSubstr(what));
    };
    for (const char* wrong : {"everything", "ops --limit 0", "ops --limit x", "ops --fast 1"})
        refuses(wrong[0] == 'e' ? "everything" : "--", wrong, programs(), file());
    EXPECT_EQ(shell(RONDO_SOURCE_DIR "/tools/gpu_check.sh ops --limit", folder()), 2);
    refuses("/nowhere/tests_gpu is missing", "ops", "/nowhere", file());
    fs::create_directories(folder() / "folders/rondo");
    fs::copy(programs() / "tests_emulated", folder() / "folders/tests_emulated");
    refuses("rondo is missing", "ops", folder() / "folders", file());
    EXPECT_FALSE(fs::exists(file()));
    refuses("its folder must be there", "ops", programs(), "/nowhere/results.json");
    refuses("is no file", "ops", programs(), programs());
    std::ofstream(file()) << "not of this program\n";
    refuses("its last line must be ]", "ops", programs(), file());
}

TEST_F(GpuCheck, RehearsesOnTheEmulator) {
    EXPECT_EQ(check("primitives", RONDO_BINARY_DIR "/bin"), 0) << results_.dump(1);
    EXPECT_GE(item("primitives").at("passed"), 10);
    EXPECT_EQ(item("primitives").at("gpu"), "emulated");
}

}  // namespace
}  // namespace rondo
