#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/cli/rondo_process.hpp"

namespace rondo {
namespace {

using testing::expect_error;
using testing::expect_failure;
using ::testing::HasSubstr;
using testing::run_rondo;

TEST(Usage, HelpIsOnStandardOutput) {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"--help"}, {"generate", "--help"}, {"bench", "decode", "--help"}}) {
        const auto outcome = run_rondo(arguments);
        EXPECT_EQ(outcome.status, 0);
        EXPECT_EQ(outcome.err, "");
        EXPECT_THAT(outcome.out, HasSubstr("Usage:"));
    }
    const std::string help = run_rondo({"--help"}).out;
    for (const std::string command :
         {"serve", "chat", "generate", "score", "tokenize", "detokenize", "inspect", "bench", "eval", "completion"}) {
        EXPECT_THAT(help, HasSubstr("\n  " + command + " "));
    }
}

TEST(Usage, HelpOfACommandAndTheVersion) {
    EXPECT_EQ(run_rondo({"help", "serve"}).out, run_rondo({"serve", "--help"}).out);
    EXPECT_EQ(run_rondo({"help", "bench", "decode"}).out, run_rondo({"bench", "decode", "--help"}).out);
    EXPECT_EQ(run_rondo({"help"}).out, run_rondo({"--help"}).out);
    const auto version = run_rondo({"--version"});
    EXPECT_EQ(version.status, 0);
    ASSERT_TRUE(version.out.starts_with("rondo ") && version.out.ends_with("\n")) << version.out;
    const std::string number = version.out.substr(6, version.out.size() - 7);
    std::ifstream file(std::string(RONDO_SOURCE_DIR) + "/CMakeLists.txt");
    const std::string project((std::istreambuf_iterator<char>(file)), {});
    EXPECT_THAT(project, HasSubstr("project(rondo VERSION " + number + " "));
}

TEST(Usage, AMisspeltCommandIsGuessed) {
    expect_error(run_rondo({"sevre"}), 2, "did you mean serve?");
    expect_error(run_rondo({"bench", "decod"}), 2, "did you mean decode?");
    expect_error(run_rondo({"help", "evl"}), 2, "did you mean eval?");
    expect_error(run_rondo({"sing"}), 2, "no command \"sing\"; see rondo --help");
    expect_error(run_rondo({"generate", "decod"}), 2, "see rondo generate --help");
    expect_error(run_rondo({"hlep"}), 2, "did you mean help?");
}

TEST(Usage, WholeNumbersAreWhatTheySay) {
    for (const std::vector<std::string>& wrong :
         {std::vector<std::string>{"generate", "--prompt", "a", "--max-tokens", "010"},
          {"generate", "--prompt", "a", "--max-tokens", "0x10"},
          {"generate", "--prompt", "a", "--seed", "99999999999999999999"},
          {"generate", "--prompt", "a", "--seed", "-1"},
          {"generate", "--prompt", "a", "--seed", "01"},
          {"serve", "--port", "044000"},
          {"bench", "prefill", "--tokens", "0100"}})
        expect_error(run_rondo(wrong), 2, "must be a whole number, without leading zeros");
    EXPECT_EQ(run_rondo({"generate", "--prompt", "a", "--max-tokens", "1", "--seed", "18446744073709551615"}).status,
              0);
}

TEST(Usage, AMisspeltOptionIsGuessed) {
    expect_error(run_rondo({"generate", "--promt", "a"}), 2,
                 "rondo generate has no option --promt; did you mean --prompt?");
    expect_error(run_rondo({"generate", "--promt=a"}), 2, "has no option --promt; did you mean --prompt?");
    expect_error(run_rondo({"bench", "decode", "--repaet", "3"}), 2,
                 "rondo bench decode has no option --repaet; did you mean --repeat?");
    expect_error(run_rondo({"tokenize", "--txet", "a"}), 2, "did you mean --text?");
    expect_error(run_rondo({"detokenize", "--idss", "1"}), 2, "did you mean --ids?");
    expect_error(run_rondo({"--versoin"}), 2, "rondo has no option --versoin; did you mean --version?");
    expect_error(run_rondo({"generate", "--loud"}), 2,
                 "rondo generate has no option --loud; see rondo generate --help");
    expect_error(run_rondo({"generate", "-x"}), 2, "has no option -x; see rondo generate --help");
}

TEST(Usage, TheHelpOfHelp) {
    EXPECT_EQ(run_rondo({"help", "help"}).out, run_rondo({"--help"}).out);
    EXPECT_THAT(run_rondo({"--help"}).out, HasSubstr("rondo help COMMAND"));
    EXPECT_THAT(run_rondo({"help", "chat"}).out, HasSubstr("/rewind K"));
}

TEST(Usage, TwoWordsForOneKeyAreRefused) {
    for (const auto& [flags, words] :
         {std::pair(std::vector<std::string>{"--kv", "f32", "--set", "memory.kv_dtype=bf16"}, "--kv f32 and --set"),
          {{"--chunk", "4", "--set", "pipeline.prefill.chunk_tokens=8"}, "--chunk 4 and --set"},
          {{"--model", "m", "--set", "model.path=n"}, "--model m and --set"},
          {{"--weights", "auto", "--set", "model.weights=auto"}, "--weights auto and --set"},
          {{"--device", "cpu:2", "--set", "devices.cpu.threads=1"}, "--device cpu:2 and --set"},
          {{"--device", "cpu:2", "--threads", "1"}, "--device cpu:2 and --threads 1"}}) {
        std::vector<std::string> all = {"generate", "--prompt", "a"};
        all.insert(all.end(), flags.begin(), flags.end());
        expect_failure(run_rondo(all), words);
    }
    expect_failure(run_rondo({"serve", "--port", "0", "--set", "server.port=1"}), "--port 0 and --set server.port=1");
    expect_failure(run_rondo({"serve", "--host", "::1", "--set", "server.host=::1"}), "--host ::1 and --set");
    expect_error(run_rondo({"generate", "--prompt", "a", "--logprobs", "2"}), 2, "--logprobs requires --json");
}

TEST(Usage, SamplingBeyondItsRangeIsRefusedByEveryCommandInTheSameWords) {
    for (const auto& [flag, value] : {std::pair("--temperature", "-1"), {"--temperature", "nan"}, {"--top-p", "2"}}) {
        const auto generated = run_rondo({"generate", "--prompt", "a", flag, value});
        expect_failure(generated, "must be ");
        EXPECT_EQ(run_rondo({"chat", flag, value}, "Hello!\n").err, generated.err);
        EXPECT_EQ(run_rondo({"chat", "--url", "http://127.0.0.1:1", flag, value}, "Hello!\n").err, generated.err);
    }
}

TEST(Usage, WrongUseIsTwo) {
    expect_error(run_rondo({}), 2, "subcommand");
    expect_error(run_rondo({"bench"}), 2, "subcommand");
    expect_error(run_rondo({"inspect"}), 2, "subcommand");
    expect_error(run_rondo({"generate", "--loud"}), 2, "--loud");
    expect_error(run_rondo({"generate", "--lo\nud\x1b[31m"}), 2, "--lo\\x0aud\\x1b[31m");
    expect_error(run_rondo({"generate", "--prompt", "a", "--tokens", "1"}), 2, "excludes");
    expect_error(run_rondo({"generate", "--prompt", "a", "--messages", "m"}), 2, "excludes");
    expect_error(run_rondo({"generate", "--prompt", "a", "--max-tokens", "0"}), 2, "range");
    expect_error(run_rondo({"generate", "--prompt", "a", "--max-tokens", "many"}), 2, "--max-tokens");
    expect_error(run_rondo({"generate", "--prompt", "a", "--temperature", "warm"}), 2, "--temperature");
    expect_error(run_rondo({"generate", "--prompt", "a", "--chunk", "0"}), 2, "range");
    expect_error(run_rondo({"generate", "--prompt", "a", "--threads", "-1"}), 2, "range");
    expect_error(run_rondo({"generate", "--prompt", "a", "--kv", "f64"}), 2, "bf16");
    expect_error(run_rondo({"score"}), 2, "required");
    expect_error(run_rondo({"score", "--tokens", "1", "--text", "a"}), 2, "--text");
    expect_error(run_rondo({"detokenize"}), 2, "--ids");
    expect_error(run_rondo({"bench", "prefill", "--tokens", "0"}), 2, "range");
    expect_error(run_rondo({"bench", "decode", "--batch", "1025"}), 2, "range");
}

TEST(Usage, NotANumberIsInNoRange) {
    const std::vector<std::pair<std::vector<std::string>, const char*>> flags{
        {{"chat", "--url", "http://127.0.0.1:1"}, "--timeout-s"},
        {{"bench", "multi_turn", "--url", "http://127.0.0.1:1"}, "--timeout-s"},
        {{"bench", "multi_turn"}, "--slo-ttft-ms"},
        {{"bench", "multi_turn"}, "--slo-tpot-ms"},
        {{"bench", "multi_turn"}, "--scale"},
        {{"inspect", "attention"}, "--gamma"},
        {{"inspect", "attention"}, "--layer-ratio"}};
    for (const auto& [command, flag] : flags) {
        for (const char* value : {"nan", "-nan", "inf", "-1"}) {
            std::vector<std::string> words = command;
            words.push_back(std::string(flag) + "=" + value);
            expect_error(run_rondo(words), 2, flag);
        }
    }
}

/// Nothing here can serve, whose process would not end.
TEST(Usage, AnEmptyNameOfAFileIsRefused) {
    for (const std::vector<std::string>& words : {std::vector<std::string>{"generate", "--prompt", "a", "--config", ""},
                                                  {"serve", "--api-keys", "", "--config", "/no/such/file"},
                                                  {"serve", "--config", "/no/such/file", "--api-keys="},
                                                  {"score", "--text", "a", "--logits", ""},
                                                  {"inspect", "model", ""}})
        expect_error(run_rondo(words), 2, "must name a file or a folder");
}

TEST(Usage, AnEmptyValueTakesNoOtherWord) {
    EXPECT_EQ(run_rondo({"tokenize", "--text=", "--json"}).out, "{\"ids\":[]}\n");
    EXPECT_EQ(run_rondo({"tokenize", "--text", "--a="}).status, 0) << "a value may end so";
    expect_failure(run_rondo({"generate", "--prompt=", "--json"}), "empty prompt");
}

TEST(Usage, ErrorsAreOneLineWhateverIsInThem) {
    expect_failure(run_rondo({"generate", "--model", "/no/such\nfolder\x1b[2J\r", "--prompt", "a"}),
                   "such?folder?[2J?");
    expect_error(run_rondo({"generate", "--method", "a\nb", "--prompt", "a"}), 2, "a\\x0ab");
}

TEST(Usage, FailedOutputIsAFailure) {
    if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
    const std::string program = std::string(RONDO_BINARY_DIR) + "/bin/rondo";
    for (const char* command :
         {"generate --prompt Hello --max-tokens 3", "tokenize --text Hello --json", "inspect model"}) {
        const int status = std::system((program + " " + command + " > /dev/full 2> /dev/null").c_str());
        EXPECT_EQ(WEXITSTATUS(status), 1) << command;
    }
}

TEST(Usage, DevicesThatAreNotThereAreNamed) {
    for (const char* device : {"gpu", "cpu:0", "cpu:-1", "cpu:9999999999", "cuda:x", "cuda:-1"}) {
        expect_error(run_rondo({"generate", "--prompt", "a", "--device", device}), 2, "cpu, cpu:THREADS");
    }
    expect_failure(run_rondo({"generate", "--prompt", "a", "--device", "cuda:63"}), "cuda:63");
    expect_failure(run_rondo({"chat", "--device", "cuda:63"}), "cuda:63");
    expect_failure(run_rondo({"chat", "--device", "cuda:0", "--threads", "2"}),
                   "--threads is for CPU devices; the device must be one");
}

}  // namespace
}  // namespace rondo
