#include "tests/actors/demo_model_f32.hpp"
#include "tests/cli/rondo_process.hpp"
#include "tests/folder.hpp"
#include "tests/transport/scripted_server.hpp"

namespace rondo {
namespace {

using ::testing::HasSubstr;
using testing::http_answer;
using ::testing::Not;
using testing::run_rondo;
using testing::ScriptedServer;

/// The answers to these lines, a line each.
std::vector<std::string> answers(const std::string& lines, std::vector<std::string> more = {}) {
    more.insert(more.begin(), "chat");
    const auto outcome = run_rondo(more, lines);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err, "");
    std::vector<std::string> out;
    std::istringstream in(outcome.out);
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
}

TEST(Chat, AnswersFromTheMessageItself) {
    EXPECT_THAT(answers("The code of the red box is 4817. What is the code of the red box?\n"),
                ::testing::ElementsAre("The code of the red box is 4817."));
}

TEST(Chat, AnswersInTheExampleCluster) {
    // Prompts on one device, answers on the other; the second round begins with KV of both.
    EXPECT_THAT(
        answers("The code of the red box is 4817. What is the code of the red box?\nThank you.\n"
                "What is the code of the red box?\n",
                {"--config", RONDO_SOURCE_DIR "/examples/chat_cluster/cluster.yaml"}),
        ::testing::ElementsAre("The code of the red box is 4817.", ::testing::_, "The code of the red box is 4817."));
}

TEST(Chat, RemembersEarlierRounds) {
    const auto told = answers("The code of the red box is 4817.\nWhat is the code of the red box?\n");
    ASSERT_EQ(told.size(), 2U);
    EXPECT_THAT(told[1], HasSubstr("4817"));
    // The model knows the answer only if it was told.
    EXPECT_THAT(answers("Hello!\nWhat is the code of the red box?\n").at(1), Not(HasSubstr("4817")));
}

TEST(Chat, KeepsTwoFactsApartOverSeveralRounds) {
    const auto out = answers(
        "The code of the red box is 4817.\nHello!\nThe code of the old lamp is 2093.\nThank you.\n"
        "What is the code of the red box?\nWhat is the code of the old lamp?\n");
    ASSERT_EQ(out.size(), 6U);
    EXPECT_EQ(out[4], "The code of the red box is 4817.");
    EXPECT_EQ(out[5], "The code of the old lamp is 2093.");
}

TEST(Chat, KeptKvGivesWhatPrefillingAnewGives) {
    // The second round reuses the first one's KV; chunks of one token compute the same conversation in other steps.
    const std::string lines = "Bako lives in Oslo.\nWhere does Bako live?\nHow are you?\n";
    const std::vector<std::string> whole = {"--model", testing::demo_model_in_f32(), "--kv", "f32"};
    std::vector<std::string> token_by_token = whole;
    token_by_token.insert(token_by_token.end(), {"--chunk", "1"});
    EXPECT_EQ(answers(lines, whole), answers(lines, token_by_token));
    EXPECT_THAT(answers(lines).at(1), HasSubstr("Oslo"));
}

TEST(Chat, BeginsAnewWhereAStoreHasKeptWhatWasSaidBefore) {
    const testing::Folder folder;
    const std::vector<std::string> store = {"--set", "memory.disk.path=" + folder.path() + "/store", "--set",
                                            "memory.disk.kv_mib=64"};
    EXPECT_EQ(answers("The code of the red box is 4817.\n", store).size(), 1U);
    EXPECT_TRUE(answers("", store).empty()) << "a conversation in which nothing is said";
    const auto told = answers("What is the code of the red box?\n/list\n", store);
    ASSERT_EQ(told.size(), 3U) << "its own conversation, and the first one";
    EXPECT_THAT(told[0], Not(HasSubstr("4817")));
    const std::string first = told[2].substr(0, told[2].find(' '));
    EXPECT_THAT(answers("/open " + first + "\nWhat is the code of the red box?\n", store).at(0), HasSubstr("4817"));
}

TEST(Chat, TakesCarriageReturnsEmptyLinesAndAMissingLastNewline) {
    const auto plain = answers("The code of the red box is 4817.\nWhat is the code of the red box?\n");
    EXPECT_EQ(answers("\n\r\nThe code of the red box is 4817.\r\n\nWhat is the code of the red box?"), plain);
    EXPECT_TRUE(answers("").empty());
}

TEST(Chat, AnswersAreBounded) {
    const auto shortened =
        answers("The code of the red box is 4817.\nWhat is the code of the red box?\n", {"--max-tokens", "2"});
    ASSERT_EQ(shortened.size(), 2U);
    EXPECT_THAT(shortened[1], Not(HasSubstr("4817")));
}

TEST(Chat, FindsAServerByItsUrlWithOrWithoutV1) {
    for (const std::string& base : {std::string(), std::string("/base")}) {
        for (const char* root : {"", "/v1/"}) {
            std::vector<std::string> asked;  // by one connection after another
            ScriptedServer server([&](const auto& request, const auto& send) {
                asked.push_back(request.head.substr(0, request.head.find(" HTTP")));
                if (asked.back().ends_with("/models"))
                    return send(http_answer(200, R"({"data":[{"id":"m","owned_by":"rondo"}]})"));
                if (!asked.back().ends_with("/completions")) return send(http_answer(200, R"({"id":"c"})"));
                return send(http_answer(200,
                                        "data: {\"choices\":[{\"delta\":{\"content\":\"Good day.\"},"
                                        "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"));
            });
            EXPECT_THAT(answers("Hello!\n", {"--url", server.url() + base + root}),
                        ::testing::ElementsAre("Good day."));
            EXPECT_THAT(asked, ::testing::ElementsAre("GET " + base + "/v1/models", "POST " + base + "/v1/sessions",
                                                      "POST " + base + "/v1/chat/completions",
                                                      "DELETE " + base + "/v1/sessions/c"));
        }
    }
}

TEST(Chat, ObeysCommandsFromAPipe) {
    const std::string fact = "The code of the red box is 4817.\n", question = "What is the code of the red box?\n";
    const auto out = answers(fact + question + "/rewind 0\n" + question + "//rounds\n/rounds\n/quit\nnever said\n");
    ASSERT_EQ(out.size(), 8U);
    EXPECT_THAT(out[1], HasSubstr("4817"));
    EXPECT_THAT(out[2], Not(HasSubstr("4817"))) << "the round with the code was forgotten";
    EXPECT_THAT(out[4], ::testing::StartsWith("0  ("));
    EXPECT_THAT(out[6], ::testing::AllOf(::testing::StartsWith("1  ("), ::testing::EndsWith(") /rounds")))
        << "what was escaped was said";
    EXPECT_THAT(answers("/help\n").front(), HasSubstr("/rounds"));
}

TEST(Chat, ACommandFromAPipeThatFailsEndsIt) {
    testing::expect_failure(run_rondo({"chat"}, "/rewnd 0\nHello!\n"),
                            "/rewnd: no such command; did you mean /rewind?; a message must begin with // instead");
    testing::expect_failure(run_rondo({"chat"}, "/rewind 0\n"), "round");
    testing::expect_failure(run_rondo({"chat"}, "/rewind x\n"), "the round must be a number that /rounds shows");
    testing::expect_failure(run_rondo({"chat"}, "/open\n"), "id must be one that /list shows");
    testing::expect_failure(run_rondo({"chat"}, "/quit now\n"), "/quit takes no value");
}

TEST(Chat, ConversationBeyondTheContextIsRefusedByName) {
    std::string line;
    while (line.size() < 30'000) line += "It was a slow afternoon. ";
    testing::expect_failure(run_rondo({"chat"}, line + "\n"), "the context holds 4096");
    testing::expect_failure(run_rondo({"chat"}, "\xff\n"), "UTF-8");
    testing::expect_failure(run_rondo({"chat", "--temperature", "-1"}, "Hello!\n"), "temperature");
}

}  // namespace
}  // namespace rondo
