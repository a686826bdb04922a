#include "tests/cli/rondo_process.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

using testing::expect_failure;
using testing::run_json;
using testing::run_rondo;

/// A method that the command would not run is not a label for what it did run.
TEST(MethodPhase, TheOtherPhasesMethodIsRefused) {
    expect_failure(run_rondo({"bench", "prefill", "--tokens", "16", "--method", "snapkv"}),
                   "--method snapkv says how answers attend, and bench prefill runs prompts: it must be dense, "
                   "loopserve or rondo, or one");
    expect_failure(run_rondo({"bench", "decode", "--tokens", "4", "--method", "a_shape"}),
                   "--method a_shape says how prompts attend, and bench decode runs answers: it must be dense, "
                   "loopserve or rondo, or one");
    expect_failure(run_rondo({"score", "--text", "Hello", "--method", "progressive"}),
                   "--method progressive says how answers attend, and score runs prompts");
    expect_error(run_rondo({"score", "--text", "Hello", "--method", "sparse"}), 2, "--method \"sparse\": must be ");
    expect_error(run_rondo({"score", "--text", "Hello", "--device", "gpu"}), 2, "device is \"gpu\", must be ");
}

TEST(MethodPhase, TheFlagWinsOverTheFile) {
    const testing::TemporaryFolder folder;
    const std::string file = (folder.path() / "pipeline.yaml").string();
    folder.write("pipeline.yaml", "pipeline: {decode: {attention: {method: snapkv}}}\n");
    const std::vector<std::string> args = {"bench", "decode", "--tokens", "4", "--repeat", "1", "--config", file};
    EXPECT_EQ(run_json(args).at("method"), "snapkv");
    std::vector<std::string> dense = args;
    for (const char* const more : {"--method", "dense"}) dense.emplace_back(more);
    EXPECT_EQ(run_json(dense).at("method"), "dense");
    // Whatever else is said of a phase.
    std::vector<std::string> other = args;
    for (const char* const more : {"--method", "progressive", "--set", "pipeline.decode.attention={budget_tokens: 64}"})
        other.emplace_back(more);
    EXPECT_EQ(run_json(other).at("method"), "progressive");
    for (const char* const more : {"--set", "preset=loopserve"}) dense.emplace_back(more);
    expect_failure(run_rondo(dense), "--method dense and --set preset=loopserve: there must be only one of them");
}

TEST(ModelOptions, AFlagAndAMapThatSayTheSameKeyAreRefused) {
    for (const auto& [flag, value, set] : {std::tuple("--kv", "f32", "memory={kv_dtype: bf16}"),
                                           {"--kv", "f32", "memory={device_kv_mib: 64, \"kv_dtype\": bf16}"},
                                           {"--model", "a", "model={path: b}"},
                                           {"--chunk", "8", "pipeline={prefill: {chunk_tokens: 16}}"},
                                           {"--method", "snapkv", "pipeline.decode.attention={method: recent}"},
                                           {"--method", "snapkv", "pipeline.rounds.method=top_rounds"},
                                           {"--method", "dense", "pipeline={rounds: {method: top_rounds}}"}}) {
        expect_failure(run_rondo({"generate", "--prompt", "a", flag, value, "--set", set}),
                       "there must be only one of them");
    }
    EXPECT_EQ(run_rondo({"generate", "--prompt", "a", "--max-tokens", "1", "--method", "dense", "--set",
                         "pipeline={methods: [loopserve]}"})
                  .status,
              0)
        << "another key that begins so";
}

/// What a flag says stands in place of the file before its keys are checked together.
TEST(ModelOptions, ADeviceOfTheFlagIsCheckedAndNotTheFilesOwn) {
    const testing::TemporaryFolder folder;
    const std::string file = (folder.path() / "gpu.yaml").string();
    folder.write("gpu.yaml", "devices: {gpu: {kind: cuda, ordinal: 1}}\n");
    const auto outcome = run_rondo({"generate", "--prompt", "Hello!", "--max-tokens", "1", "--config", file, "--device",
                                    "cpu", "--method", "loopserve"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    expect_failure(run_rondo({"generate", "--prompt", "a", "--device", "cuda", "--set", "devices.cpu.bf16=tiles"}),
                   "bf16: must be measured where kind is cuda");
}

TEST(MethodPhase, AReportNamesWhatRan) {
    const auto prefill = run_json({"bench", "prefill", "--tokens", "16", "--repeat", "1", "--method", "loopserve"});
    EXPECT_EQ(prefill.at("method"), "loopserve");
    const auto decode = run_json({"bench", "decode", "--tokens", "4", "--repeat", "1", "--method", "loopserve"});
    EXPECT_EQ(decode.at("method"), "progressive");
    EXPECT_FALSE(decode.contains("mass")) << "nothing was chosen in so short a context";
}

}  // namespace
}  // namespace rondo
