#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/rondo_process.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

using testing::expect_error;
using testing::expect_failure;
using testing::run_json;
using testing::run_rondo;
using testing::TemporaryFolder;

TEST(Eval, EveryMethodAnswersEveryDialogueAndOnlyWhatSeesTheEvidenceIsRight) {
    const auto json = run_json({"eval", "--dialogues", "2", "--rounds", "4", "--budgets", "25", "--history", "both",
                                "--methods", "dense,progressive:pool=5,snapkv,h2o,quest,random,oracle,no_history"});
    std::map<std::string, int> right;
    for (const auto& answer : json.at("answers")) {
        const std::string method = answer.at("method");
        right[method] += answer.at("exact").get<bool>() ? 1 : 0;
        if (answer.at("history") != "teacher_forced") continue;
        EXPECT_EQ(answer.at("kl_to_dense").get<double>() == 0.0, method == "dense") << method;
        if (method == "snapkv" || method == "h2o") {
            EXPECT_LT(answer.at("density").get<double>(), 0.5) << method;
        }
    }
    EXPECT_EQ(json.at("answers").size(), 8U * 2 * 3 * 2);
    EXPECT_GE(right["dense"], 11);
    EXPECT_GE(right["oracle"], 11);
    EXPECT_LE(right["random"], 4);
    EXPECT_LE(right["no_history"], 2);
}

TEST(Eval, TheSameFlagsGiveTheSameFigures) {
    const std::vector<std::string> args = {"eval",      "--dialogues", "1",        "--rounds", "4",
                                           "--methods", "loopserve",   "--places", "end",      "--json"};
    const auto first = run_rondo(args), second = run_rondo(args);
    EXPECT_EQ(first.status, 0) << first.err;
    EXPECT_EQ(nlohmann::json::parse(first.out).at("answers").size(), 2U);  // loopserve's, and dense's beside it
    EXPECT_EQ(first.out, second.out);
}

TEST(Eval, RefusesWhatWouldHaveNoEffect) {
    const TemporaryFolder folder;
    const std::string file = (folder.path() / "pipeline.yaml").string();
    for (const char* says : {"preset: loopserve\n", "pipeline: {decode: {attention: {budget_tokens: 64}}}\n"}) {
        folder.write("pipeline.yaml", says);
        expect_failure(run_rondo({"eval", "--dialogues", "1", "--config", file}), "says how to attend; --methods");
    }
    expect_error(run_rondo({"eval", "--method", "loopserve"}), 2, "--method");
    expect_error(run_rondo({"eval", "--chunk", "16"}), 2, "--chunk");
}

TEST(Eval, MistakesAreOneLineThatSaysWhatWouldBeRight) {
    for (const auto& [flags, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
             {{"--methods", "dens"}, "must be dense, loopserve"},
             {{"--methods", "progressive:poll=3"}, "pool"},
             {{"--methods", "progressive:pool=0"}, "a whole number 1 to 255"},
             {{"--budgets", "0"}, "percents from 1 to 100"},
             {{"--places", "front"}, "begin"},
             {{"--task", "sing"}, "recall"}}) {
        std::vector<std::string> args = {"eval", "--dialogues", "1"};
        args.insert(args.end(), flags.begin(), flags.end());
        expect_failure(run_rondo(args), said);
    }
}

}  // namespace
}  // namespace rondo
