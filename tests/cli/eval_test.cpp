#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <sstream>

#include "cli/measure/eval/roundtalk.hpp"
#include "tests/cli/rondo_process.hpp"
#include "tests/model/model_bytes.hpp"

namespace rondo {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;
using testing::expect_failure;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::run_json;
using testing::run_rondo;
using testing::TemporaryFolder;

TEST(Eval, EveryMethodAnswersEveryDialogueAndOnlyWhatSeesTheEvidenceIsRight) {
    const auto json = run_json({"eval", "--dialogues", "2", "--rounds", "6", "--budgets", "25", "--history", "both",
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

TEST(Eval, AsksEachTaskAtEachPlaceAndRecordsWhatCameOfIt) {
    const auto json = run_json({"eval", "--dialogues", "2", "--rounds", "3", "--methods", "dense", "--task",
                                "recall,list,mix", "--places", "begin,end"});
    std::map<std::string, int> asked;
    for (const auto& answer : json.at("answers")) {
        const std::string task = answer.at("asked"), place = answer.at("place");
        ++asked[task];
        cli::eval::DialogueOptions how;
        how.rounds = 3;
        how.place = cli::eval::parse_place(place).value();
        if (task != "mix") how.tasks = {cli::eval::parse_task(task).value()};
        const auto rounds = cli::eval::make_dialogue(answer.at("dialogue").get<uint64_t>(), how);
        EXPECT_EQ(answer.at("task").get<std::string>(), to_string(rounds.value().back().task));
    }
    EXPECT_THAT(asked, ElementsAre(Pair("list", 4), Pair("mix", 4), Pair("recall", 4)));
    std::vector<std::string> titles;
    for (const auto& table : json.at("tables")) titles.push_back(table.at("title").get<std::string>());
    EXPECT_THAT(titles, ::testing::IsSupersetOf({"all tasks, by question place", "by task", "recall, by question place",
                                                 "list, by question place"}));
}

TEST(Eval, TheFlagsItNamesRunItAgain) {
    const TemporaryFolder folder;
    folder.write("pipeline.yaml", "memory: {kv_dtype: f32}\n");
    const auto first = run_json({"eval", "--dialogues", "1", "--rounds", "2", "--places", "end", "--methods", "snapkv",
                                 "--config", (folder.path() / "pipeline.yaml").string(), "--threads", "1", "--set",
                                 "pipeline.decode.attention.window=3", "--set", "pipeline.prefill.chunk_tokens=16"});
    const std::string flags = first.at("flags");
    EXPECT_THAT(flags, HasSubstr(" --threads 1 --set pipeline.decode.attention.window=3 "
                                 "--set pipeline.prefill.chunk_tokens=16"));
    std::istringstream line(flags);
    std::vector<std::string> words;
    for (std::string word; line >> word;) words.push_back(word);
    ASSERT_EQ(words[0], "rondo");
    words.erase(words.begin());
    EXPECT_EQ(run_json(words), first);

    const auto report = run_rondo({"eval", "--dialogues", "1", "--rounds", "1", "--places", "end", "--methods", "dense",
                                   "--kv", "f32", "--set", "pipeline.decode.on=[cpu]"});
    EXPECT_THAT(report.out, HasSubstr(" --seed 1000000 --kv f32 --set 'pipeline.decode.on=[cpu]'`\n"));
}

/// Of each method, the mean of a figure over its answers.
std::map<std::string, double> means(const nlohmann::json& json, const std::string& figure) {
    std::map<std::string, double> out;
    for (const auto& row : json.at("tables").at(0).at("rows")) {
        const std::string method = row.at("method");
        out[method] = row.at("all").at(figure).get<double>();
    }
    return out;
}

/// Of all that an evicting method reads, its choice among the prompt's keys too.
TEST(Eval, AMethodThatMatchesBytesReadsAsManyAsItsRival) {
    const auto json =
        run_json({"eval", "--dialogues", "2", "--rounds", "8", "--places", "begin", "--task", "recall,list",
                  "--budgets", "40", "--methods", "progressive,snapkv,snapkv:match=bytes", "--against", "progressive"});
    std::map<std::string, std::map<std::string, double>> read;
    for (const auto& answer : json.at("answers")) {
        const std::string which = answer.at("asked").get<std::string>() + answer.at("dialogue").dump();
        read[which][answer.at("method")] = answer.at("bytes_read").get<double>();
    }
    EXPECT_EQ(read.size(), 4U);
    for (auto& [which, by_method] : read) {
        const double rival = by_method["progressive"];
        EXPECT_NEAR(by_method["snapkv:match=bytes"], rival, 0.01 * rival) << which;
        EXPECT_LT(std::abs(by_method["snapkv:match=bytes"] - rival), std::abs(by_method["snapkv"] - rival)) << which;
    }
}

TEST(Eval, TheOracleHeedsWhenToChoose) {
    const auto json = run_json({"eval", "--dialogues", "1", "--rounds", "4", "--places", "end", "--task", "list",
                                "--methods", "oracle,oracle:lag_steps=3,oracle:cold_tokens=6,oracle:reselect_every=2"});
    auto density = means(json, "density");
    EXPECT_LT(density["oracle"], 0.9);
    EXPECT_GT(density["oracle:lag_steps=3"], density["oracle"]);
    EXPECT_GT(density["oracle:cold_tokens=6"], density["oracle"]);
    EXPECT_LT(density["oracle:reselect_every=2"], density["oracle"]);
}

TEST(Eval, PromptsComeInChunksOfTheSizeThatIsSet) {
    // A method for prompts lets chunks of fewer than min_tokens / 4 rows be dense.
    const std::vector<std::string> args = {"eval",
                                           "--dialogues",
                                           "1",
                                           "--rounds",
                                           "8",
                                           "--places",
                                           "end",
                                           "--methods",
                                           "a_shape",
                                           "--set",
                                           "pipeline.prefill.attention.min_tokens=64"};
    std::vector<std::string> small = args;
    for (const char* const more : {"--set", "pipeline.prefill.chunk_tokens=8"}) small.emplace_back(more);
    EXPECT_LT(means(run_json(args), "prompt_density")["a_shape"], 1.0);
    EXPECT_EQ(means(run_json(small), "prompt_density")["a_shape"], 1.0);
}

TEST(Eval, RefusesWhatWouldHaveNoEffect) {
    const TemporaryFolder folder;
    const std::string file = (folder.path() / "pipeline.yaml").string();
    for (const char* says : {"preset: loopserve\n", "pipeline: {decode: {attention: {budget_tokens: 64}}}\n"}) {
        folder.write("pipeline.yaml", says);
        expect_failure(run_rondo({"eval", "--dialogues", "1", "--config", file}),
                       "says how to attend; that must be said by --methods");
    }
    expect_error(run_rondo({"eval", "--method", "loopserve"}), 2, "--method");
    expect_error(run_rondo({"eval", "--chunk", "16"}), 2, "--chunk");
    for (const auto& [flag, value, said] : std::vector<std::array<std::string, 3>>{
             {"--methods", "snapkv:budget_tokens=64", "that must be said by --budgets, in percent of the prompt"},
             {"--methods", "oracle:pool=5",
              "pool has no effect on oracle; the key must be cold_tokens, reselect_every or lag_steps"},
             {"--methods", "snapkv:cold_tokens=4",
              "cold_tokens has no effect on snapkv; the key must be pool, pool_side or window"},
             {"--methods", "quest:window=9", "window has no effect on quest; there must be no key"},
             {"--methods", "a_shape:alpha=0.9",
              "alpha has no effect on a_shape; the key must be density or min_tokens"},
             {"--methods", "snapkv,dense,snapkv", "each must be there only once"},
             {"--budgets", "20,40,20", "each must be there only once"},
             {"--methods", "oracle:alpha=0.9", "alpha has no effect on dense prompts"},
             {"--methods", "no_history:cold_tokens=4", "cold_tokens has no effect on dense answers"},
             {"--methods", "minference:method=tri_shape", "the name must be one for answers"},
             {"--set", "pipeline.decode.attention.budget_tokens=64", "that must be said by --budgets, in percent"},
             {"--set", "pipeline.decode.attention.method=snapkv", "that must be said by --methods"},
             {"--set", "preset=loopserve", "that must be said by --methods"},
             {"--set", "pipeline.decode={attention: {budget_tokens: 64}}", "the key must be pipeline.*.attention.KEY"},
             {"--set", "memory.device_kv_mib=64", "memory.device_kv_mib: has no effect here"},
             {"--set", "server.port=81", "server.port: has no effect here"},
             {"--set", "pipeline.decode.atention.pool=5", "did you mean attention?"}})
        expect_failure(run_rondo({"eval", "--dialogues", "1", flag, value}), said);
}

TEST(Eval, MistakesAreOneLineThatSaysWhatMustBe) {
    for (const auto& [flags, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
             {{"--methods", "dens"}, "must be dense, loopserve"},
             {{"--methods", "progressive:poll=3"}, "pool"},
             {{"--methods", "progressive:pool=256"}, "a whole number 0 to 255"},
             {{"--methods", "snapkv@poled"}, "variant \"poled\" is not known, must be printed, pooled or preset"},
             {{"--methods", "quest@pooled"}, "quest has no scores of keys to pool; the variant must be @printed"},
             {{"--methods", "snapkv:budget=0"}, "budget must be a percent from 1 to 100"},
             {{"--methods", "a_shape:budget=20"}, "a budget has no effect on dense answers"},
             {{"--methods", "snapkv@preset:budget=20"}, "a budget has no effect on @preset; it must be budget_tokens"},
             {{"--methods", "snapkv:match=keys"}, "match must be bytes"},
             {{"--methods", "snapkv:match=bytes"}, "match=bytes must stand behind the method that --against names"},
             {{"--methods", "quest", "--budgets", "2", "--history", "free_running"},
              "must be at least 48: more percent, or longer dialogues"},
             {{"--methods", "dense,snapkv:match=bytes", "--against", "dense"},
              "match=bytes must have a rival with a budget of its own"},
             {{"--methods", "progressive,snapkv:match=bytes:budget=30", "--against", "progressive", "--budgets", "20"},
              "match=bytes must run at budgets in percent at which its rival runs too"},
             {{"--methods", "progressive:budget=40,snapkv:match=bytes", "--against", "progressive:budget=40"},
              "match=bytes must run at budgets"},
             {{"--methods", "progressive@preset,snapkv:match=bytes", "--against", "progressive@preset"},
              "match=bytes must run at budgets"},
             {{"--methods", "quest", "--budgets", "2"}, "must be at least 48: more percent, or longer dialogues"},
             {{"--methods", "snapkv:budget=1", "--rounds", "3"},
              "must be at least 8: more percent, or longer dialogues"},
             {{"--methods", "dense", "--against", "snapkv"}, "--against snapkv: must be one of --methods"},
             {{"--methods", "loopserve:overlap=literal:first_keys=4"},
              "first_keys: is 4, must be 0 where overlap is literal"},
             {{"--methods", "loopserve:blocks=5000"}, "a whole number 0 to 4096"},
             {{"--budgets", "0"}, "must be percents from 1 to 100"},
             {{"--places", "front"}, "begin"},
             {{"--places", "end,begin,end"}, "each must be there only once"},
             {{"--task", "sing"}, "recall"},
             {{"--task", "recall,"}, "task \"\" is not known, must be recall, "},
             {{"--task", "recall,mixed"}, "or mix for what the model was trained on"},
             {{"--task", "mix,recall,mix"}, "each must be there only once"}}) {
        std::vector<std::string> args = {"eval", "--dialogues", "1"};
        args.insert(args.end(), flags.begin(), flags.end());
        expect_failure(run_rondo(args), said);
    }
}

}  // namespace
}  // namespace rondo
