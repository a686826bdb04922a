#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/rondo_process.hpp"

namespace rondo {
namespace {

using testing::expect_failure;
using testing::run_json;
using testing::run_rondo;

TEST(Eval, EveryMethodAnswersEveryDialogueAndOnlyWhatSeesTheEvidenceIsRight) {
    const auto json = run_json({"eval", "--dialogues", "3", "--rounds", "6", "--budgets", "25", "--history", "both",
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
    EXPECT_EQ(json.at("answers").size(), 8U * 3 * 3 * 2);
    EXPECT_GE(right["dense"], 16);
    EXPECT_GE(right["oracle"], 16);
    EXPECT_LE(right["random"], 6);
    EXPECT_LE(right["no_history"], 2);
}

TEST(Eval, TheSameFlagsGiveTheSameFigures) {
    const std::vector<std::string> args = {"eval",      "--dialogues", "1",        "--rounds", "4",
                                           "--methods", "loopserve",   "--places", "end",      "--json"};
    EXPECT_EQ(run_rondo(args).out, run_rondo(args).out);
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
