#include "tests/cli/rondo_process.hpp"

/// The program itself, linked with the emulated GPU in place of the CUDA backend (build/emulated/bin/rondo).
namespace rondo {
namespace {

using testing::run_json;
using testing::run_rondo;

/// The model is sure of every token of this answer, so small differences of sums choose no other one.
const std::vector<std::string> generate = {
    "generate",
    "--prompt",
    "<|user|>The code of the red box is 4817. What is the code of the red box?<|end|><|assistant|>",
    "--max-tokens",
    "8",
    "--ignore-eos"};

std::vector<std::string> on(const char* device) {
    std::vector<std::string> arguments = generate;
    arguments.insert(arguments.end(), {"--device", device});
    return arguments;
}

TEST(EmulatedGenerate, GivesTheTokensOfTheCpu) {
    const auto cpu = run_json(on("cpu:1")), gpu = run_json(on("cuda:0"));
    EXPECT_EQ(gpu.at("ids").size(), 8U);
    EXPECT_EQ(gpu.at("ids"), cpu.at("ids"));
    EXPECT_EQ(gpu.at("text"), cpu.at("text"));
}

TEST(EmulatedGenerate, RefusesASecondGpuInOneLine) {
    testing::expect_failure(run_rondo(on("cuda:1")), "this machine has 1 GPUs");
}

}  // namespace
}  // namespace rondo
