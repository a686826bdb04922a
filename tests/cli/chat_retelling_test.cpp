// A Rondo that was started anew between two turns: the conversation is begun there again, with all that was said.

#include "tests/cli/rondo_process.hpp"
#include "tests/cli/rondo_terminal.hpp"
#include "tests/transport/scripted_server.hpp"

namespace rondo {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::http_answer;
using testing::ScriptedServer;

/// Knows the conversation no more at the second turn. What it says to the third is the test's.
class ForgetfulRondo {
public:
    explicit ForgetfulRondo(std::string third = said_yes())
        : third_(std::move(third)),
          server_([this](const auto& request, const ScriptedServer::Send& send) { return send(answer_to(request)); }) {}

    static std::string said_yes() {
        return http_answer(200,
                           "data: {\"choices\":[{\"delta\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\n");
    }
    static json messages(const std::vector<std::pair<std::string, std::string>>& said) {
        json all = json::array();
        for (const auto& [role, content] : said) all.push_back({{"role", role}, {"content", content}});
        return all;
    }
    std::string url() const { return server_.url(); }

    std::vector<json> bodies;  // of the turns
    std::vector<std::string> deleted;

private:
    std::string answer_to(const ScriptedServer::Request& request) {
        const std::string asked = request.head.substr(0, request.head.find(" HTTP"));
        if (asked == "GET /v1/models")
            return http_answer(200, R"({"data":[{"id":"m","owned_by":"rondo","methods":["dense"]}]})");
        if (asked == "POST /v1/sessions")
            return http_answer(200, json{{"id", "c" + std::to_string(++sessions_)}}.dump());
        if (asked.starts_with("DELETE ")) deleted.push_back(asked.substr(7));
        if (asked != "POST /v1/chat/completions") return http_answer(200, "{}");
        bodies.push_back(json::parse(request.body));
        if (bodies.size() == 2) return http_answer(404, R"({"error":{"message":"not kept"}})");
        return bodies.size() == 3 ? third_ : said_yes();
    }

    std::string third_;
    int sessions_ = 0;
    ScriptedServer server_;
};

TEST(ChatRetelling, ARondoThatForgotTheConversationIsToldAllOfIt) {
    const ForgetfulRondo rondo;
    const auto outcome = testing::run_rondo({"chat", "--url", rondo.url()}, "One?\nTwo?\nThree?\n");
    EXPECT_EQ(outcome.out, "yes\nyes\nyes\n");
    EXPECT_EQ(outcome.err, "rondo: the server no longer had this conversation; it gets all of it again\n");
    ASSERT_EQ(rondo.bodies.size(), 4U);
    EXPECT_EQ(rondo.bodies[0]["conversation"], "c1");
    EXPECT_EQ(rondo.bodies[2]["conversation"], "c2");
    EXPECT_EQ(rondo.bodies[2]["messages"],
              ForgetfulRondo::messages({{"user", "One?"}, {"assistant", "yes"}, {"user", "Two?"}}));
    EXPECT_EQ(rondo.bodies[3]["messages"], ForgetfulRondo::messages({{"user", "Three?"}}));
}

class ChatRetellingFails : public ::testing::Test {
protected:
    /// The third request fails so, and what is asked next goes well.
    static void talk(const ForgetfulRondo& rondo, const char* failure) {
        testing::RondoTerminal terminal({"chat", "--url", rondo.url()});
        terminal.until_prompt();
        EXPECT_EQ(terminal.say("One?"), "yes\n");
        EXPECT_THAT(terminal.say("Two?"), HasSubstr(failure));
        EXPECT_EQ(terminal.say("/rounds"), "0  (0 tokens) One?\n   yes\n");
        EXPECT_EQ(terminal.say("Three?"), "yes\n");
        terminal.type("/quit\n");
        EXPECT_EQ(terminal.end(), 0);
        ASSERT_EQ(rondo.bodies.size(), 4U);
        EXPECT_EQ(rondo.bodies[2]["conversation"], "c2");
        EXPECT_EQ(rondo.bodies[3]["messages"],
                  ForgetfulRondo::messages({{"user", "One?"}, {"assistant", "yes"}, {"user", "Three?"}}));
    }
};

/// What it is told again is not forgotten here before the server has it.
TEST_F(ChatRetellingFails, ARefusalIsToldAgain) {
    const ForgetfulRondo rondo(http_answer(429, R"({"error":{"message":"too busy"}})"));
    talk(rondo, "too busy");
    EXPECT_EQ(rondo.bodies[3]["conversation"], "c2");
}

/// What broke while it was told may have reached the server: it must not hear it twice.
TEST_F(ChatRetellingFails, AConversationThatWasToldInPartIsBegunAnew) {
    const ForgetfulRondo rondo(http_answer(200,
                                           "data: {\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\n"
                                           "data: {\"error\":{\"message\":\"it died\"}}\n\n"));
    talk(rondo, "it died");
    EXPECT_EQ(rondo.bodies[3]["conversation"], "c3");
    EXPECT_THAT(rondo.deleted, ::testing::Contains("/v1/sessions/c2"));
}

}  // namespace
}  // namespace rondo
