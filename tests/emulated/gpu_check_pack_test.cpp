#include "tests/emulated/gpu_check.hpp"

/// `tools/gpu_check.sh pack`: what a bundle holds, that it runs with nothing else, and what is refused.
namespace rondo {
namespace {

using testing::GpuCheckRun;
namespace fs = std::filesystem;

constexpr const char* emulated_programs = RONDO_BINARY_DIR "/bin";

class GpuCheckPack : public GpuCheckRun {
protected:
    GpuCheckPack() {
        fs::create_directories(here());
        fs::create_directories(temporary());
        ::setenv("TMPDIR", temporary().c_str(), 1);
        ::setenv("XZ_OPT", "-0", 1);  // quickly rather than small
        write_program(programs() / "rondo",
                      "[ -e \"$3/config.json\" ] || [ -e \"$4/config.json\" ] && echo '{\"ids\":[1,2]}'");
    }
    ~GpuCheckPack() override {
        ::unsetenv("TMPDIR");
        ::unsetenv("XZ_OPT");
    }
    GpuCheckPack(const GpuCheckPack&) = delete;
    GpuCheckPack& operator=(const GpuCheckPack&) = delete;

    fs::path here() const { return folder() / "where it is made"; }
    fs::path programs() const { return folder() / "the programs"; }
    fs::path temporary() const { return folder() / "temporary files"; }
    fs::path bundle() const { return folder() / "a machine with a GPU/gpu-check"; }

    int pack(const std::string& arguments, const std::string& before = "") {
        return shell(before + " " RONDO_SOURCE_DIR "/tools/gpu_check.sh pack " + arguments, here());
    }

    void unpack(const std::string& file) {
        fs::create_directories(bundle().parent_path());
        ASSERT_EQ(shell("tar -xf '" + file + "' -C '" + bundle().parent_path().string() + "'", here()), 0) << output;
    }

    /// Within the bundle, without anything of the environment.
    int run_bundled(const std::string& command) { return shell("env -i PATH=/usr/bin:/bin " + command, bundle()); }

    static std::vector<std::string> names_in(const fs::path& folder) {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
        return names;
    }

    void refuses(const std::string& what, const std::string& arguments, const std::string& before = "") {
        EXPECT_EQ(pack(arguments, before), 2) << output;
        EXPECT_THAT(output, ::testing::HasSubstr(what));
        EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1) << output;
        EXPECT_TRUE(fs::is_empty(here())) << arguments;
        EXPECT_TRUE(fs::is_empty(temporary())) << arguments;
    }
};

TEST_F(GpuCheckPack, BringsTheLibrariesOfItsProgramsAndRunsThem) {
    write_program(programs() / "tests_gpu",
                  "cd \"${0%/*}\" && ./rondo --version && ldd ./rondo && " + std::string(passes));
    ASSERT_EQ(shell("cp \"$(command -v xz)\" '" + (programs() / "rondo").string() + "'", here()), 0);
    ASSERT_EQ(pack("--programs '" + programs().string() + "'"), 0) << output;
    unpack("gpu-check.tar.xz");
    fs::rename(bundle() / "tests_gpu", bundle() / "tests_emulated");  // nobody looks for a GPU's libraries
    EXPECT_EQ(run_bundled("./gpu_check.sh primitives --out ../results.json"), 0) << output;
    const std::string said = item_of(read_json(bundle() / "../results.json"), "primitives").at("output");
    EXPECT_THAT(said, ::testing::HasSubstr("liblzma.so.5 => " + bundle().string() + "/lib/liblzma.so.5"));
}

/// Longer than the others, as is the next: `make check` runs them.
TEST_F(GpuCheckPack, TheEmulatedProgramsRunWithNothingElse) {
    ASSERT_EQ(pack("--programs " + std::string(emulated_programs)), 0) << output;
    unpack("gpu-check.tar.xz");
    EXPECT_EQ(run_bundled("LD_LIBRARY_PATH=lib ldd ./rondo ./tests_emulated | grep -v '=> lib/'"), 0);
    std::istringstream not_bundled(output);
    for (std::string line; std::getline(not_bundled, line);) {
        if (line.find("=>") == std::string::npos) continue;  // the loader
        EXPECT_THAT(line, ::testing::ContainsRegex("(libc|libm|libdl|librt|libpthread)\\.so"));
    }
    EXPECT_EQ(run_bundled("./gpu_check.sh primitives --out ../results.json"), 0) << output;
    EXPECT_GE(item_of(read_json(bundle() / "../results.json"), "primitives").at("passed"), 10);
    EXPECT_EQ(run_bundled("LD_LIBRARY_PATH=lib ./rondo tokenize --model models/demo --text red --json"), 0) << output;
}

TEST_F(GpuCheckPack, ABundleBringsEveryStageItsModelsAndGoldenFiles) {
    const std::string golden = fs::directory_iterator(RONDO_SOURCE_DIR "/tests/fixtures/golden")->path().filename();
    write_program(programs() / "tests_emulated", "[ -e \"$RONDO_GOLDEN_MODELS/" + golden + "\" ] || exit 1\n" + passes);
    ASSERT_EQ(pack("--programs '" + programs().string() + "'"), 0) << output;
    unpack("gpu-check.tar.xz");
    (void)run_bundled("./gpu_check.sh all --out ../results.json");
    const nlohmann::json results = read_json(bundle() / "../results.json");
    EXPECT_EQ(results.size(), 25U);
    for (const auto& item : results) {  // NVIDIA's checkers are the machine's own
        EXPECT_TRUE(item.at("stage") == "memory" || item.at("status") == "passed") << item.dump();
    }
    EXPECT_EQ(run_bundled("./gpu_check.sh pack"), 2);
    EXPECT_THAT(output, ::testing::HasSubstr("pack needs Rondo's sources"));
}

TEST_F(GpuCheckPack, TakesRelativePathsWithSpacesAndLeavesNothingElse) {
    write_program(programs() / "tests_gpu", passes);
    write_program(programs() / "tests_emulated", "exit 1");
    std::ofstream(here() / "my bundle.tar.xz") << "an older one";
    ASSERT_EQ(pack("'my bundle.tar.xz' --programs '../the programs'"), 0) << output;
    EXPECT_THAT(names_in(here()), ::testing::ElementsAre("my bundle.tar.xz"));
    EXPECT_TRUE(fs::is_empty(temporary()));
    unpack("my bundle.tar.xz");
    EXPECT_THAT(names_in(bundle()),
                ::testing::UnorderedElementsAre("gpu_check.sh", "rondo", "tests_gpu", "lib", "models", "golden"));
    EXPECT_THAT(names_in(bundle() / "models"), ::testing::UnorderedElementsAre("demo", "qwen2-0.5b"));
    EXPECT_EQ(read_json(bundle() / "models/qwen2-0.5b/config.json").at("num_hidden_layers"), 24);
}

TEST_F(GpuCheckPack, RefusesAFileThatCannotBeWrittenBeforeAnythingIsBuilt) {
    refuses("nowhere/bundle.tar.xz cannot be written: its folder must be there", "nowhere/bundle.tar.xz");
    refuses("it must be a file", "'" + programs().string() + "'");
    refuses("--fast is not --programs", "bundle.tar.xz --fast");
    refuses("--programs needs a value", "bundle.tar.xz --programs");
}

TEST_F(GpuCheckPack, RefusesProgramsThatAreNotThere) {
    refuses("nowhere/tests_gpu is missing", "--programs nowhere");
    refuses("tests_gpu is missing", "--programs '" + programs().string() + "'");
    fs::create_directories(programs() / "tests_gpu");
    refuses("tests_gpu is missing", "--programs '" + programs().string() + "'");
    fs::remove(programs() / "tests_gpu");
    write_program(programs() / "tests_gpu", passes);
    fs::permissions(programs() / "rondo", fs::perms::owner_read);
    refuses("rondo is missing", "--programs '" + programs().string() + "'");
}

TEST_F(GpuCheckPack, RefusesAProgramWhoseLibraryIsNotFound) {
    write_program(programs() / "tests_gpu", passes);
    ASSERT_EQ(shell("LC_ALL=C sed 's/liblzma\\.so\\.5/liblzmb.so.5/g' \"$(command -v xz)\" >'" +
                        (programs() / "rondo").string() + "'",
                    here()),
              0);
    refuses("rondo needs liblzmb.so.5, which is not found", "--programs '" + programs().string() + "'");
}

TEST_F(GpuCheckPack, RefusesToPackWithoutXz) {
    write_program(programs() / "tests_gpu", passes);
    const fs::path few = folder() / "few";
    fs::create_directories(few);
    for (const char* const tool : {"bash", "dirname", "tar", "ldd", "strip", "rm"}) {
        ASSERT_EQ(shell("ln -s \"$(command -v " + std::string(tool) + ")\" " + few.string(), here()), 0);
    }
    refuses("xz is not here; it must be installed", "--programs '" + programs().string() + "'", "PATH=" + few.string());
}

TEST_F(GpuCheckPack, KeepsTheOlderBundleWhenItCannotWriteAllOfTheNewOne) {
    write_program(programs() / "tests_gpu", passes);
    write_program(folder() / "full/xz", "head -c 100; echo 'no space left' >&2; exit 1");
    std::ofstream(here() / "gpu-check.tar.xz") << "an older one";
    EXPECT_EQ(pack("--programs '" + programs().string() + "'", "PATH=" + (folder() / "full").string() + ":$PATH"), 2);
    EXPECT_THAT(output, ::testing::HasSubstr("gpu-check.tar.xz cannot be written whole"));
    EXPECT_EQ(shell("cat gpu-check.tar.xz", here()), 0);
    EXPECT_EQ(output, "an older one");
    EXPECT_THAT(names_in(here()), ::testing::ElementsAre("gpu-check.tar.xz"));
}

}  // namespace
}  // namespace rondo
